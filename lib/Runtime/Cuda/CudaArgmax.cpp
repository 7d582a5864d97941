//===- CudaArgmax.cpp - Greedy choice on the card -------------------------===//
//
// An element and its index form one number: the float's bits, put in unsigned
// order, above the complement of the index. The largest number is the largest
// element, the first one of equal ones; NaN counts as nothing.
//
//===----------------------------------------------------------------------===//

#include "CudaArgmax.h"

#include <algorithm>
#include <cstring>

using namespace fusion;
using namespace fusion::artifact;
using namespace fusion::cuda;

static constexpr uint32_t kThreads = 256;

/// `bytes` of an element; `load` leaves the float of address %address in %v.
static std::string entry(const std::string &name, const char *bytes,
                         const std::string &load) {
  std::string text = ".visible .entry " + name + R"(
    (.param .u64 row, .param .u64 count, .param .u64 results)
    .reqntid 256, 1, 1 {
  .reg .pred %p;
  .reg .b16 %h;
  .reg .b32 %t, %c, %n, %i, %bits, %sign, %low, %high, %lane;
  .reg .f32 %v;
  .reg .b64 %index, %stride, %count, %row, %results, %address, %best, %key;
  .shared .align 8 .b64 warps[8];
  ld.param.u64 %row, [row];
  ld.param.u64 %count, [count];
  ld.param.u64 %results, [results];
  cvta.to.global.u64 %row, %row;
  cvta.to.global.u64 %results, %results;
  mov.u32 %t, %tid.x;
  mov.u32 %c, %ctaid.x;
  mov.u32 %n, %nctaid.x;
  mad.lo.u32 %i, %c, 256, %t;
  cvt.u64.u32 %index, %i;
  mul.wide.u32 %stride, %n, 256;
  mov.u64 %best, 0;
next:
  setp.ge.u64 %p, %index, %count;
  @%p bra reduce;
  mad.lo.u64 %address, %index, )" +
                     bytes + ", %row;\n" + load + R"(
  add.f32 %v, %v, 0f00000000;
  mov.b32 %bits, %v;
  shr.s32 %sign, %bits, 31;
  or.b32 %sign, %sign, 0x80000000;
  xor.b32 %bits, %bits, %sign;
  cvt.u32.u64 %i, %index;
  not.b32 %i, %i;
  mov.b64 %key, {%i, %bits};
  setp.nan.f32 %p, %v, %v;
  @%p mov.u64 %key, 0;
  max.u64 %best, %best, %key;
  add.u64 %index, %index, %stride;
  bra next;
reduce:
)";
  auto exchange = [&](int distance) {
    std::string d = std::to_string(distance);
    text += "  mov.b64 {%low, %high}, %best;\n"
            "  shfl.sync.bfly.b32 %low, %low, " +
            d +
            ", 31, 0xffffffff;\n"
            "  shfl.sync.bfly.b32 %high, %high, " +
            d +
            ", 31, 0xffffffff;\n"
            "  mov.b64 %key, {%low, %high};\n"
            "  max.u64 %best, %best, %key;\n";
  };
  for (int distance : {16, 8, 4, 2, 1})
    exchange(distance);
  text += R"(  and.b32 %lane, %t, 31;
  shr.u32 %i, %t, 5;
  mov.u32 %low, warps;
  mad.lo.u32 %low, %i, 8, %low;
  setp.eq.u32 %p, %lane, 0;
  @%p st.shared.u64 [%low], %best;
  bar.sync 0;
  setp.ge.u32 %p, %t, 32;
  @%p ret;
  and.b32 %i, %t, 7;
  mov.u32 %low, warps;
  mad.lo.u32 %low, %i, 8, %low;
  ld.shared.u64 %best, [%low];
)";
  for (int distance : {4, 2, 1})
    exchange(distance);
  return text + R"(  setp.ne.u32 %p, %t, 0;
  @%p ret;
  cvt.u64.u32 %index, %c;
  mad.lo.u64 %address, %index, 8, %results;
  st.global.u64 [%address], %best;
  ret;
}
)";
}

static std::string ptx() {
  return ".version 8.0\n.target sm_90\n.address_size 64\n" +
         entry("argmax_f32", "4", "  ld.global.f32 %v, [%address];") +
         entry("argmax_f16", "2",
               "  ld.global.b16 %h, [%address];\n  cvt.f32.f16 %v, %h;") +
         entry("argmax_bf16", "2",
               "  ld.global.u16 %bits, [%address];\n"
               "  shl.b32 %bits, %bits, 16;\n  mov.b32 %v, %bits;");
}

std::unique_ptr<CudaArgmax> CudaArgmax::load(const CudaDevice &device) {
  const Driver &driver = device.driver();
  std::unique_ptr<CudaArgmax> argmax(new CudaArgmax(device));
  std::string text = ptx();
  if (driver.moduleLoadData(&argmax->module, text.c_str()) != Code::Success) {
    argmax->module = nullptr;
    return nullptr;
  }
  const char *names[] = {"argmax_f32", "argmax_f16", "argmax_bf16"};
  for (int i = 0; i < 3; ++i)
    if (driver.moduleGetFunction(&argmax->functions[i], argmax->module,
                                 names[i]) != Code::Success)
      return nullptr;
  return argmax;
}

CudaArgmax::~CudaArgmax() {
  if (module)
    (void)device.driver().moduleUnload(module);
}

bool CudaArgmax::supports(DType type) {
  return type == DType::F32 || type == DType::F16 || type == DType::BF16;
}

Status CudaArgmax::issue(Stream stream, DType type, Address row, uint64_t count,
                         Address results) const {
  Function function = functions[type == DType::F32   ? 0
                                : type == DType::F16 ? 1
                                                     : 2];
  void *parameters[] = {&row, &count, &results};
  LaunchConfig config{kBlocks, 1, 1, kThreads, 1, 1, 0, stream, nullptr, 0};
  return device.driver().check(
      device.driver().launchKernel(&config, function, parameters, nullptr),
      "choosing the next token");
}

int64_t CudaArgmax::choose(const uint8_t *results) {
  uint64_t best = 0;
  for (uint32_t i = 0; i < kBlocks; ++i) {
    uint64_t key;
    memcpy(&key, results + i * sizeof key, sizeof key);
    best = std::max(best, key);
  }
  return best == 0 ? -1 : static_cast<int64_t>(~static_cast<uint32_t>(best));
}
