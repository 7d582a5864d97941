//===- KernelSweep.cpp - Generated kernels on the card --------------------===//
//
//   kernel-sweep DIR [--seed=N] [--check-only]
//
// Loads DIR/NAME.cubin for every line of DIR/cases.txt and DIR/kernels.txt,
// runs each kernel on fresh random data with poisoned results and guard zones
// around every buffer, at aligned and at unaligned addresses, compares with an
// fp64 reference, and reruns it: the bits must be equal. Then measures the
// bandwidth of the kernels named `*_4096_bf16` against copies in the same run.
// Exit code 0 with a message where there is no card.
//
//===----------------------------------------------------------------------===//

#include "Cuda.h"
#include "Sweep.h"

#include "fusion/Support/SymExpr.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>

using namespace sweep;

namespace {

constexpr size_t kGuard = 4096;
constexpr unsigned char kGuardByte = 0xA5, kPoison = 0xFF;

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A device buffer between two guard zones, `shift` bytes off alignment.
struct Buffer {
  cuda::Ptr base = 0;
  size_t bytes = 0, shift = 0;
  Buffer(size_t n, size_t off) : bytes(n), shift(off) {
    base = cuda::allocate(total());
    cuda::fill(base, kGuardByte, total());
  }
  Buffer(Buffer &&o) noexcept : base(o.base), bytes(o.bytes), shift(o.shift) {
    o.base = 0;
  }
  Buffer(const Buffer &) = delete;
  ~Buffer() {
    if (base)
      cuda::release(base);
  }
  size_t total() const { return bytes + 2 * kGuard; }
  cuda::Ptr data() const { return base + kGuard + shift; }
  bool guardsIntact() const {
    std::vector<uint8_t> all(total());
    cuda::download(all.data(), base, total());
    size_t begin = data() - base;
    for (size_t i = 0; i < all.size(); ++i)
      if ((i < begin || i >= begin + bytes) && all[i] != kGuardByte)
        return false;
    return true;
  }
};

unsigned gridOf(const Case &c, int64_t rows) {
  std::optional<fusion::SymExpr> e = fusion::SymExpr::parse(c.grid);
  auto lookup = [&](std::string_view) { return std::optional<int64_t>(rows); };
  return unsigned(e ? e->evaluate(lookup).value_or(0) : 0);
}

/// A kernel with its buffers, ready to launch.
struct Prepared {
  std::vector<Buffer> buffers;
  std::vector<cuda::Ptr> pointers;
  std::vector<void *> params;
  Buffer sizes{8, 0};
  unsigned grid = 0;

  Prepared(const Case &c, int64_t rows, const std::vector<Tensor> &operands,
           const std::vector<size_t> &resultBytes, bool shifted) {
    for (const Tensor &t : operands) {
      buffers.emplace_back(t.bytes.size(), shifted ? elementBytes(t.type) : 0);
      cuda::upload(buffers.back().data(), t.bytes.data(), t.bytes.size());
    }
    for (size_t n : resultBytes)
      buffers.emplace_back(n, shifted ? elementBytes(c.type) : 0);
    cuda::upload(sizes.data(), &rows, 8);
    for (const Buffer &b : buffers)
      pointers.push_back(b.data());
    pointers.push_back(sizes.data());
    for (cuda::Ptr &p : pointers)
      params.push_back(&p);
    grid = gridOf(c, rows);
  }
};

int64_t rowsFor(int64_t width, std::mt19937_64 &random) {
  int64_t most = std::clamp<int64_t>((1 << 19) / width, 3, 300);
  return 1 + int64_t(random() % most);
}

/// Empty when the kernel is right.
std::string check(const Case &c, cuda::Handle fn, int64_t rows, uint64_t seed,
                  bool shifted, double &worst) {
  std::vector<Tensor> operands = makeOperands(c, rows, seed);
  std::vector<Expected> expected = reference(c, rows, operands);
  std::vector<size_t> bytes;
  for (const Expected &e : expected)
    bytes.push_back(e.values.size() * elementBytes(e.type));
  Prepared p(c, rows, operands, bytes, shifted);
  std::vector<std::vector<uint8_t>> first;
  for (int run = 0; run < 2; ++run) {
    for (size_t i = 0; i < bytes.size(); ++i)
      cuda::fill(p.buffers[operands.size() + i].data(), kPoison, bytes[i]);
    cuda::launch(fn, p.grid, c.threads, nullptr, p.params.data());
    cuda::synchronize(nullptr);
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::vector<uint8_t> out(bytes[i]);
      cuda::download(out.data(), p.buffers[operands.size() + i].data(),
                     bytes[i]);
      if (run == 0)
        first.push_back(std::move(out));
      else if (out != first[i])
        return "a second run gives other bits";
    }
  }
  for (const Buffer &b : p.buffers)
    if (!b.guardsIntact())
      return "wrote outside its buffers";
  for (size_t i = 0; i < expected.size(); ++i) {
    size_t where = 0;
    double error = worstError(expected[i], first[i], where);
    worst = std::max(worst, error);
    if (error > 1) {
      std::ostringstream text;
      text << "result " << i << " at " << where << ": "
           << decode(c.type, first[i].data() + where * elementBytes(c.type))
           << ", expected " << expected[i].values[where] << " (" << error
           << " x what is allowed)";
      return text.str();
    }
  }
  return "";
}

std::vector<Case> readCases(const std::string &dir) {
  std::map<std::string, Case> launches;
  std::istringstream kernels(readFile(dir + "/kernels.txt"));
  for (std::string line; std::getline(kernels, line);) {
    std::istringstream in(line);
    Case c;
    if (in >> c.name >> c.threads >> c.registers >> c.shared &&
        std::getline(in, c.grid))
      launches[c.name] = c;
  }
  std::vector<Case> cases;
  std::istringstream names(readFile(dir + "/cases.txt"));
  for (Case c; names >> c.name >> c.op >> c.width >> c.type >> c.weightType;) {
    auto it = launches.find(c.name);
    if (it == launches.end()) {
      std::printf("no kernel for case %s\n", c.name.c_str());
      continue;
    }
    c.threads = it->second.threads;
    c.grid = it->second.grid;
    c.registers = it->second.registers;
    cases.push_back(c);
  }
  return cases;
}

//===----------------------------------------------------------------------===//
// Bandwidth
//===----------------------------------------------------------------------===//

/// One contender: launches itself on the i-th set of buffers.
struct Contender {
  std::string name;
  double bytes;
  std::function<void(int, cuda::Handle)> go;
  std::vector<double> micros;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

double timeBurst(Contender &c, cuda::Handle stream, cuda::Handle e0,
                 cuda::Handle e1, int launches) {
  cuda::call("cuEventRecord", e0, stream);
  for (int i = 0; i < launches; ++i)
    c.go(i, stream);
  cuda::call("cuEventRecord", e1, stream);
  cuda::call("cuEventSynchronize", e1);
  float ms = 0;
  cuda::call("cuEventElapsedTime", &ms, e0, e1);
  return ms * 1000.0 / launches;
}

/// Times all contenders in random order, many rounds; medians in `micros`.
void race(std::vector<Contender> &contenders, std::mt19937_64 &random,
          int rounds, int launches) {
  cuda::Handle stream = nullptr, e0 = nullptr, e1 = nullptr;
  cuda::call("cuStreamCreate", &stream, 0u);
  cuda::call("cuEventCreate", &e0, 0u);
  cuda::call("cuEventCreate", &e1, 0u);
  for (Contender &c : contenders)
    timeBurst(c, stream, e0, e1, launches);
  for (int r = 0; r < rounds; ++r) {
    std::vector<size_t> order(contenders.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i : order)
      contenders[i].micros.push_back(
          timeBurst(contenders[i], stream, e0, e1, launches));
  }
  cuda::call("cuStreamDestroy_v2", stream);
}

void printRace(const std::vector<Contender> &contenders) {
  double best = 0;
  for (const Contender &c : contenders)
    if (c.name.compare(0, 4, "copy") == 0)
      best = std::max(best, c.bytes / median(c.micros));
  for (const Contender &c : contenders) {
    std::vector<double> sorted = c.micros;
    std::sort(sorted.begin(), sorted.end());
    double us = median(sorted);
    std::printf("  %-28s %8.2f us (10 %%..90 %%: %.2f..%.2f)  %6.0f GB/s",
                c.name.c_str(), us, sorted[sorted.size() / 10],
                sorted[sorted.size() * 9 / 10], c.bytes / us / 1e3);
    std::printf(best > 0 ? "  %.3f of copy\n" : "\n", c.bytes / us / best);
  }
}

/// Kernels of this width and type at `rows` rows against copies of as many
/// bytes.
void bandwidth(const std::vector<Case> &cases,
               std::map<std::string, cuda::Handle> &kernels, int64_t rows,
               std::mt19937_64 &random) {
  constexpr int kSets =
      3; // 256 MB each for add + norm: far beyond the L2 cache
  std::vector<Contender> contenders;
  std::vector<std::shared_ptr<std::vector<Prepared>>> keep;
  for (const Case &c : cases) {
    bool wanted = c.width == 4096 && c.type == "bf16" &&
                  c.weightType == "bf16" && c.op != "transpose_add" &&
                  c.op != "gather_rows" && c.op != "rotate_half";
    if (!wanted)
      continue;
    auto sets = std::make_shared<std::vector<Prepared>>();
    double bytes = 0;
    std::vector<Tensor> operands = makeOperands(c, rows, random());
    size_t matrix = size_t(rows) * c.width * 2;
    std::vector<size_t> results = {c.op == "reduce_sum" ? size_t(rows) * 2
                                                        : matrix};
    if (c.op == "add_rms_norm")
      results.push_back(matrix);
    if (c.op == "center")
      results.push_back(size_t(rows) * 2);
    for (const Tensor &t : operands)
      bytes += double(t.bytes.size());
    for (size_t n : results)
      bytes += double(n);
    for (int s = 0; s < kSets; ++s)
      sets->emplace_back(c, rows, operands, results, false);
    cuda::Handle fn = kernels[c.name];
    unsigned threads = c.threads;
    contenders.push_back({c.op == "copy" ? "copy (generated kernel)" : c.op,
                          bytes,
                          [=](int i, cuda::Handle stream) {
                            Prepared &p = (*sets)[i % kSets];
                            cuda::launch(fn, p.grid, threads, stream,
                                         p.params.data());
                          },
                          {}});
    keep.push_back(sets);
  }
  size_t half = size_t(rows) * 4096 * 2 * 2; // two tensors read, two written
  auto from = std::make_shared<std::vector<Buffer>>(),
       to = std::make_shared<std::vector<Buffer>>();
  for (int s = 0; s < kSets; ++s) {
    from->emplace_back(half, 0);
    to->emplace_back(half, 0);
  }
  contenders.push_back({"copy (driver, 2+2 tensors)",
                        2.0 * half,
                        [=](int i, cuda::Handle stream) {
                          cuda::call("cuMemcpyDtoDAsync_v2",
                                     (*to)[i % kSets].data(),
                                     (*from)[i % kSets].data(), half, stream);
                        },
                        {}});
  race(contenders, random, 41, rows >= 4096 ? 12 : 200);
  std::printf("bandwidth, %lld x 4096 bf16, bytes moved counted once:\n",
              (long long)rows);
  printRace(contenders);
}

} // namespace

int main(int argc, char **argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc < 2) {
    std::printf("usage: kernel-sweep DIR [--seed=N] [--check-only]\n");
    return 2;
  }
  std::string dir = argv[1];
  uint64_t seed = std::random_device{}();
  bool checkOnly = false;
  for (int i = 2; i < argc; ++i) {
    std::string a = argv[i];
    if (a.compare(0, 7, "--seed=") == 0)
      seed = std::stoull(a.substr(7));
    checkOnly |= a == "--check-only";
  }
  char card[128] = "";
  if (!cuda::open(card, sizeof card)) {
    std::printf("skipped: no NVIDIA driver or no card on this machine\n");
    return 0;
  }
  std::printf("card %s, seed %llu\n", card, (unsigned long long)seed);

  std::mt19937_64 random(seed);
  std::vector<Case> cases = readCases(dir);
  std::map<std::string, cuda::Handle> kernels;
  std::map<std::string, double> worstOf;
  int passed = 0, failed = 0;
  for (const Case &c : cases) {
    std::string image = readFile(dir + "/" + c.name + ".cubin");
    if (image.empty()) {
      std::printf("FAILED %s: no cubin\n", c.name.c_str());
      ++failed;
      continue;
    }
    cuda::Handle fn = kernels[c.name] =
        cuda::loadKernel(image.data(), c.name.c_str());
    std::string error;
    double worst = 0;
    for (bool shifted : {false, true})
      if (error.empty()) {
        int64_t rows = rowsFor(c.width, random);
        error = check(c, fn, rows, random(), shifted, worst);
        if (!error.empty())
          error += " [" + std::to_string(rows) + " rows" +
                   (shifted ? ", unaligned]" : "]");
      }
    std::string kind = c.op + " " + c.type;
    worstOf[kind] = std::max(worstOf[kind], worst);
    if (!error.empty())
      std::printf("FAILED %s: %s\n", c.name.c_str(), error.c_str());
    ++(error.empty() ? passed : failed);
  }
  std::printf("largest error, in units of what is allowed (half a unit in the "
              "last place and fp32 "
              "arithmetic):\n");
  for (auto &[kind, worst] : worstOf)
    std::printf("  %-24s %.3f\n", kind.c_str(), worst);
  if (!checkOnly && !failed)
    for (int64_t rows : {8192, 2048, 1})
      bandwidth(cases, kernels, rows, random);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 3 : 0;
}
