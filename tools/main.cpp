//===- main.cpp - main() of a tool that is a binary of its own ------------===//

#include "Tools.h"

int main(int argc, char **argv) { return FUSION_TOOL_MAIN(argc, argv); }
