# The onnx C++ library.
