//===- Roles.h - Names of a decoder's inputs and outputs --------*- C++ -*-===//
//
// What exporters call the inputs and outputs of decoders, and what users call
// their roles. `fusion-assign-roles` decides (it sees structure too); Import
// asks while it merges sizes.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_DIALECT_FUSION_ROLES_H
#define FUSION_DIALECT_FUSION_ROLES_H

#include "llvm/ADT/StringRef.h"

namespace fusion {

/// The role in its full spelling: `ids` is token_ids, `mask` attention_mask,
/// `positions` position_ids. Empty for what is no role.
llvm::StringRef canonicalRole(llvm::StringRef text);

/// Whether one tensor at most has the role: all but the caches'.
bool isSingleRole(llvm::StringRef role);

/// The role of an input by its usual names; empty for others. `rank` keeps
/// tensors of the same name and another meaning apart: a mask of scores is no
/// attention_mask of [batch, tokens].
llvm::StringRef inputRoleByName(llvm::StringRef name, size_t rank);
llvm::StringRef outputRoleByName(llvm::StringRef name, size_t rank);

} // namespace fusion

#endif // FUSION_DIALECT_FUSION_ROLES_H
