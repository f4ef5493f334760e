# Installs the libraries of BUILD into an empty prefix, then builds and runs the project in SOURCE
# against it, as a user of find_package(offpath) would.
file(REMOVE_RECURSE ${WORK})
set(run COMMAND_ERROR_IS_FATAL ANY COMMAND_ECHO STDOUT)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component devel
                OUTPUT_QUIET ${run})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR}
                        -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${COMPILER} ${run})
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build ${run})
execute_process(COMMAND ${WORK}/build/consumer ${run})
