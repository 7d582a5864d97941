//===- SanitizerOptions.cpp - Defaults of programs built with a sanitizer -===//
//
// The allocators in LLVM's headers poison memory where they are compiled with
// the address sanitizer. Debian's libraries use the same allocators and are not
// compiled with it, so they never lift the poison: marks by hand count for
// nothing then. Everything else that the sanitizer finds still ends a program.
//
//===----------------------------------------------------------------------===//

extern "C" __attribute__((used, visibility("default"))) const char *
__asan_default_options() {
  return "allow_user_poisoning=0";
}
