//===- Tools.h - Entry points of the tools ----------------------*- C++ -*-===//
//
// Each tool is a function, so that a static build can put those over IR into
// one binary (the archives of LLVM are linked once, not four times).
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_TOOLS_TOOLS_H
#define FUSION_TOOLS_TOOLS_H

int fusionCompileMain(int argc, char **argv);
int fusionLspServerMain(int argc, char **argv);
int fusionOptMain(int argc, char **argv);
int fusionReduceMain(int argc, char **argv);
/// Links no LLVM.
int fusionRunMain(int argc, char **argv);

#endif // FUSION_TOOLS_TOOLS_H
