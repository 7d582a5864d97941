//===- Profile.cpp - Watching a run ---------------------------------------===//

#include "fusion/Runtime/Profile.h"

#include "fusion/Support/Json.h"
#include "fusion/Support/Printable.h"

#include <algorithm>
#include <cstdio>
#include <map>

using namespace fusion;
using namespace fusion::artifact;

static std::string microseconds(int64_t ns) {
  char text[32];
  snprintf(text, sizeof text, "%.3f", static_cast<double>(ns) / 1000);
  return text;
}

std::string fusion::chromeTrace(const Profile &profile, const Model &model) {
  std::string text = "{\"traceEvents\":[";
  int64_t origin = profile.events.empty() ? 0 : profile.events.front().beginNs;
  bool first = true;
  for (const Profile::Event &e : profile.events) {
    const Program &program = model.programs[e.program];
    const Launch &launch = program.launches[e.launch];
    text += first ? "\n" : ",\n";
    first = false;
    text +=
        "{\"name\":" + jsonString(model.kernels[launch.kernel].name) +
        ",\"cat\":" + jsonString(model.kernels[launch.kernel].family) +
        ",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":" +
        microseconds(e.beginNs - origin) +
        ",\"dur\":" + microseconds(e.endNs - e.beginNs) +
        ",\"args\":{\"run\":" + std::to_string(e.run) +
        ",\"program\":" + jsonString(program.name) +
        ",\"launch\":" + std::to_string(e.launch) +
        ",\"grid\":" + std::to_string(e.grid) + ",\"rows\":" +
        std::to_string(e.run < profile.rows.size() ? profile.rows[e.run] : 0) +
        ",\"site\":" + jsonString(launch.site) + "}}";
  }
  return text + "\n],\"displayTimeUnit\":\"ms\"}\n";
}

std::string fusion::profileSummary(const Profile &profile, const Model &model) {
  struct Total {
    std::string name;
    int64_t ns = 0, count = 0;
  };
  std::map<uint32_t, Total> totals;
  int64_t all = 0;
  for (const Profile::Event &e : profile.events) {
    uint32_t kernel = model.programs[e.program].launches[e.launch].kernel;
    Total &total = totals[kernel];
    total.name =
        model.kernels[kernel].name + " (" + model.kernels[kernel].family + ")";
    total.ns += e.endNs - e.beginNs;
    ++total.count;
    all += e.endNs - e.beginNs;
  }
  std::vector<Total> sorted;
  for (auto &[kernel, total] : totals)
    sorted.push_back(total);
  std::sort(sorted.begin(), sorted.end(), [](const Total &a, const Total &b) {
    return a.ns != b.ns ? a.ns > b.ns : a.name < b.name;
  });
  std::string text = "   share    total ms  launches   us each  kernel\n";
  for (const Total &total : sorted) {
    char line[96];
    snprintf(line, sizeof line, "%7.2f%% %11.3f %9lld %9.2f  ",
             100.0 * static_cast<double>(total.ns) /
                 static_cast<double>(std::max<int64_t>(all, 1)),
             static_cast<double>(total.ns) / 1e6,
             static_cast<long long>(total.count),
             static_cast<double>(total.ns) / 1e3 /
                 static_cast<double>(total.count));
    text += line + printableName(total.name) + "\n";
  }
  return text;
}
