//===- Window.h - Windows that move over the axes of an image ---*- C++ -*-===//
//
// What convolutions and pools have in common: the windows' sizes, strides and
// dilations, the border around the input and the number of places.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_IMPORT_WINDOW_H
#define FUSION_LIB_IMPORT_WINDOW_H

#include "Importer.h"

namespace fusion {

/// One spatial axis.
struct WindowAxis {
  int64_t kernel, stride = 1, dilation = 1;
  int64_t low = 0, high = 0; ///< the border, as given
  int64_t extra = 0;         ///< what rounding up reads behind it
  SymExpr size;              ///< with all three
  SymExpr out;

  explicit WindowAxis(int64_t kernel) : kernel(kernel) {}
  int64_t span() const { return (kernel - 1) * dilation + 1; }
  bool isTiled() const { return kernel == stride && span() == kernel; }
};

/// Larger kernels that overlap would be as many slices.
constexpr int64_t kMaxSlices = 256;
/// Of sizes that a node gives.
constexpr int64_t kMaxNumber = 1 << 20;

/// Windows over x [N, C, sizes..], input 0 of the node.
struct Window {
  NodeImport &n;
  mlir::SmallVector<WindowAxis> axes;
  SymExpr batch, channels;

  explicit Window(NodeImport &n) : n(n) {}

  /// Everything but the kernels, which `axes` holds already.
  llvm::LogicalResult read();
  bool hasBorder() const;
  /// x [batch, channels, ..] with `value` around it.
  mlir::Value padded(mlir::Value x, mlir::Value value);
  /// Every `stride`-th element of one axis of a padded tensor, from place
  /// `offset` of the first window.
  mlir::Value strided(mlir::Value x, size_t axis, int64_t offset);

private:
  llvm::LogicalResult padLikeInput(WindowAxis &axis, const std::string &mode);
  llvm::LogicalResult countPlaces(WindowAxis &axis, const SymExpr &given);
};

} // namespace fusion

#endif // FUSION_LIB_IMPORT_WINDOW_H
