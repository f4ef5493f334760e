// offpath::Error as the Python exceptions of offpath/errors.py.
#pragma once

namespace offpath::python {

// From then on an offpath::Error that leaves a bound function is raised as the class of its code.
void RegisterErrors();

}  // namespace offpath::python
