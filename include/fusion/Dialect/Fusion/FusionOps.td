//===- FusionOps.td - All ops of the fusion dialect -------------*- tablegen -*-===//

#ifndef FUSION_OPS_TD
#define FUSION_OPS_TD

include "fusion/Dialect/Fusion/ElementwiseOps.td"
include "fusion/Dialect/Fusion/ViewOps.td"
include "fusion/Dialect/Fusion/ReductionOps.td"
include "fusion/Dialect/Fusion/SemanticOps.td"
include "fusion/Dialect/Fusion/GroupOps.td"

#endif // FUSION_OPS_TD
