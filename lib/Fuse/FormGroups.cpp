//===- FormGroups.cpp - Forms groups in every bucket function -------------===//

#include "DecisionTree.h"
#include "EmitGroups.h"

#include "fusion/Fuse/Passes.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;

namespace fusion {
#define GEN_PASS_DEF_FORMGROUPS
#define GEN_PASS_DEF_CLONEFREEOPS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

static void eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

//===----------------------------------------------------------------------===//
// Free ops
//===----------------------------------------------------------------------===//

/// Whether the op is cheaper to repeat in each user than to store: a view, the
/// widening of a constant, or a rotation (attention makes it at the load, and a
/// cache that is a graph output needs it once more).
static bool isFreeToRepeat(Operation *op, const ConstantValues &constants) {
  if (classOf(op) == OpClass::View || isa<RopeOp>(op))
    return true;
  return classOf(op) == OpClass::Elementwise && op->getNumOperands() > 0 &&
         constants.contains(op->getResult(0)) &&
         elementBits(elementType(op->getResult(0))) >
             elementBits(elementType(op->getOperand(0)));
}

namespace {
struct CloneFreeOpsPass final
    : fusion::impl::CloneFreeOpsBase<CloneFreeOpsPass> {
  using CloneFreeOpsBase::CloneFreeOpsBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isDeclaration())
      return;
    Block &block = func.getBody().front();
    eraseDeadOps(block);
    ConstantValues constants(block);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (op.getNumResults() == 1 && isFreeToRepeat(&op, constants))
        repeat(&op);
  }

  /// One copy for each user but the first.
  static void repeat(Operation *op) {
    llvm::SetVector<Operation *> users(op->user_begin(), op->user_end());
    OpBuilder builder(op);
    for (Operation *user : users.getArrayRef().drop_front()) {
      Operation *copy = builder.clone(*op);
      user->replaceUsesOfWith(op->getResult(0), copy->getResult(0));
    }
  }
};

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

struct FormGroupsPass final : fusion::impl::FormGroupsBase<FormGroupsPass> {
  using FormGroupsBase::FormGroupsBase;
  FormGroupsPass(const FormGroupsOptions &options,
                 std::map<std::string, int64_t> sizes, FusionReport *report)
      : FormGroupsBase(options), sizes(std::move(sizes)), report(report) {}

  void runOnOperation() override {
    described = target::findDevice(device);
    if (!described) {
      getOperation().emitError("unknown device '") << device << "'";
      return signalPassFailure();
    }
    if (!measured.empty() && failed(readProfile()))
      return signalPassFailure();
    FusionReport own;
    if (!report)
      report = &own;
    report->device = device;
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isDeclaration())
        form(func);
    if (explain == "summary")
      report->printSummary(llvm::errs());
    else if (explain == "text")
      report->printText(llvm::errs());
    else if (explain == "json")
      report->printJson(llvm::errs());
    if (report == &own)
      report = nullptr;
  }

private:
  LogicalResult readProfile();
  void form(func::FuncOp func);
  void reportSite(const SiteDecision &decision, Grouping &grouping);
  void totals(Grouping &grouping, ArrayRef<GroupPlan> plans);

  const target::DeviceDescription *described = nullptr;
  std::map<std::string, int64_t> sizes;
  FusionReport *report = nullptr;
  Measured profile;
};
} // namespace

LogicalResult FormGroupsPass::readProfile() {
  auto read = Measured::read(measured);
  if (!read)
    return emitError(UnknownLoc::get(&getContext()),
                     llvm::toString(read.takeError()));
  profile = std::move(*read);
  if (profile.knows(getOperation()))
    return success();
  return emitError(UnknownLoc::get(&getContext()))
         << "profile '" << measured << "': it names no node of this model";
}

/// The cluster that holds the whole site, if one does.
static std::optional<unsigned> clusterOf(const Site &site,
                                         const Grouping &grouping) {
  unsigned cluster = grouping.clusterOf(site.ops.front());
  for (Operation *op : site.ops)
    if (grouping.clusterOf(op) != cluster)
      return std::nullopt;
  return cluster;
}

/// The most telling kind among the sites that lie in a group.
static std::string kindOf(ArrayRef<std::string> sites) {
  for (StringRef kind : {"rope_attention", "swiglu", "geglu", "add_rms_norm",
                         "add_layer_norm", "dequant_matmul"})
    for (StringRef site : sites)
      if (site.split(':').first == kind)
        return kind.str();
  return "";
}

void FormGroupsPass::form(func::FuncOp func) {
  eraseDeadOps(func.getBody().front());
  std::vector<std::string> switchedOff(disable.begin(), disable.end());
  Disabled disabled(switchedOff);
  CostModel costs(*described, func, sizes);
  Grouping grouping(func, costs, disabled, fuel, MeasuredBucket(profile, func));
  std::vector<SiteDecision> decisions = decide(grouping, readSites(func));

  llvm::DenseMap<unsigned, std::vector<std::string>> sitesOf;
  for (const SiteDecision &decision : decisions) {
    if (auto cluster = clusterOf(decision.site, grouping))
      sitesOf[*cluster].push_back(decision.site.id());
    reportSite(decision, grouping);
  }
  std::vector<GroupPlan> plans;
  for (unsigned cluster : grouping.clusters()) {
    GroupPlan plan;
    plan.ops.append(grouping.members(cluster).begin(),
                    grouping.members(cluster).end());
    plan.sites = sitesOf.lookup(cluster);
    plan.kind = kindOf(plan.sites);
    plans.push_back(std::move(plan));
  }
  totals(grouping, plans);
  emitGroups(
      func, plans,
      {numerics == "strict", !described->isHost(), costs.getAbilities()});
}

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

static Cost sumOfSingles(ArrayRef<Operation *> ops, CostModel &costs) {
  Cost sum;
  for (Operation *op : ops) {
    Cost one = costs.cost(op);
    sum.launches += one.launches;
    sum.flops += one.flops;
    sum.streamedBytes += one.streamedBytes;
    sum.residentBytes += one.residentBytes;
    sum.seconds += one.seconds;
  }
  return sum;
}

static Outcome outcomeOf(StringRef code) {
  if (code == "NOT_PROFITABLE")
    return Outcome::NotProfitable;
  return code == "DISABLED_BY_FLAG" || code == "FUEL" ? Outcome::Disabled
                                                      : Outcome::Illegal;
}

/// Why a quantised weight among the ops has no fast kernel; empty: it may have.
static std::string whySlowWeight(ArrayRef<Operation *> ops) {
  for (Operation *op : ops) {
    auto weight = dyn_cast<DequantizeOp>(op);
    if (!weight || llvm::none_of(op->getUsers(), llvm::IsaPred<MatmulOp>))
      continue;
    if (weight.getGroupIndex())
      return "the weight is read element by element: columns take their scales "
             "by a group index";
    int64_t block = weight.getBlockSize();
    auto columns = getSymShape(weight.getInput()).back().asConstant();
    if (block > 1 && block % 16 != 0 && columns && block < *columns)
      return "the weight is read element by element: blocks of " +
             std::to_string(block) + " columns are no multiple of 16";
  }
  return "";
}

void FormGroupsPass::reportSite(const SiteDecision &decision,
                                Grouping &grouping) {
  const Site &site = decision.site;
  CostModel &costs = grouping.getCosts();
  SiteReport &entry = report->site(site.kind, site.node);
  if (entry.nodes.empty())
    entry.nodes = nodeNames(site.ops);
  SiteInBucket bucket;
  bucket.bucket = grouping.getFunction().getName().str();
  std::optional<unsigned> cluster = clusterOf(site, grouping);
  bucket.fused = cluster.has_value();
  bucket.code = bucket.fused ? "FUSED" : decision.attempt.refusal->code.str();
  if (!bucket.fused) {
    bucket.message = decision.attempt.refusal->why;
    entry.outcome = outcomeOf(bucket.code);
  }
  ArrayRef<Operation *> ops =
      cluster ? grouping.members(*cluster) : ArrayRef<Operation *>(site.ops);
  if (cluster)
    bucket.message = whySlowWeight(ops);
  Cost before = sumOfSingles(ops, costs);
  Cost after = costs.cost(Candidate(ops));
  bucket.flops = before.flops;
  bucket.bytesBefore = before.bytes();
  bucket.bytesAfter = after.bytes();
  bucket.secondsBefore = before.seconds;
  bucket.secondsAfter = after.seconds;
  bucket.measuredShare = grouping.getMeasured().share(ops);
  bucket.ridge = costs.getDevice().ridge(after.arithmetic);
  entry.buckets.push_back(std::move(bucket));
  if (!cluster && getContext().getRemarkEngine())
    remark::missed(site.ops.back()->getLoc(),
                   remark::RemarkOpts::name(decision.attempt.refusal->code)
                       .category("fuse")
                       .subCategory(site.kind)
                       .function(grouping.getFunction().getName()))
        << remark::reason("{0}", decision.attempt.refusal->why)
        << remark::metric("Nodes", llvm::join(entry.nodes, " "))
        << remark::metric("UnfusedUs",
                          llvm::formatv("{0:f2}", before.seconds * 1e6).str())
        << remark::metric("FusedUs",
                          llvm::formatv("{0:f2}", after.seconds * 1e6).str());
}

void FormGroupsPass::totals(Grouping &grouping, ArrayRef<GroupPlan> plans) {
  CostModel &costs = grouping.getCosts();
  BucketTotals total;
  total.bucket = grouping.getFunction().getName().str();
  total.sizes = costs.getSizes();
  for (const GroupPlan &plan : plans) {
    Candidate candidate(plan.ops);
    Cost before = sumOfSingles(plan.ops, costs), after = costs.cost(candidate);
    total.kernelsBefore += static_cast<unsigned>(before.launches);
    total.kernelsAfter += static_cast<unsigned>(after.launches);
    total.bytesBefore += before.bytes();
    total.bytesAfter += after.bytes();
    total.secondsBefore += before.seconds;
    total.secondsAfter += after.seconds;
    if (!candidate.ops().empty())
      ++total
            .groups[plan.kind.empty()
                        ? defaultKind(candidate,
                                      classify(candidate, costs.getAbilities()))
                        : plan.kind];
  }
  report->buckets.push_back(std::move(total));
}

std::unique_ptr<Pass> fusion::createFormGroups(const FuseOptions &options) {
  FormGroupsOptions pass;
  pass.device = options.device;
  for (const std::string &text : options.disabled)
    pass.disable.push_back(text);
  pass.numerics = options.strict ? "strict" : "default";
  pass.fuel = options.fuel;
  pass.measured = options.measured;
  return std::make_unique<FormGroupsPass>(pass, options.sizes, options.report);
}
