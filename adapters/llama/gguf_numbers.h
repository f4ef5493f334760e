// The numbers of a GGUF file that llama.cpp takes on trust: it ends the process where they are not
// what it expects.
//
// Thread-safe: pure.
#pragma once

#include <string>

namespace offpath::llama {

// Throws kCorruptData naming the file, and the number that cannot be: layers, heads, or the epsilon
// of a norm. What else is wrong with a file llama.cpp says itself.
void CheckGgufNumbers(const std::string& path);

}  // namespace offpath::llama
