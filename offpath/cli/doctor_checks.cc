#include "offpath/cli/doctor_checks.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hwy/targets.h>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "offpath/cli/commands.h"
#include "offpath/lane/lane.h"

namespace offpath::cli {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Finding Build() {
  std::string detail =
      fmt::format("offpath {}, {}, {}", OFFPATH_VERSION, OFFPATH_COMPILER, OFFPATH_BUILD_TYPE);
  const std::string sanitizers = OFFPATH_SANITIZERS;
  if (!sanitizers.empty()) detail += ", sanitizers " + sanitizers + " (slow)";
  return {"build", State::kIn, detail, ""};
}

Finding Simd() {
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  // The best target has the lowest bit.
  const int64_t best = usable & -usable;
  std::string others;
  for (int64_t rest = usable & ~best; rest != 0; rest &= rest - 1) {
    others += std::string(others.empty() ? "" : ", ") + hwy::TargetName(rest & -rest);
  }
  std::string detail = std::string(hwy::TargetName(best)) + " in use";
  if (!others.empty()) detail += "; also possible here: " + others;
  return {"simd", State::kIn, detail, ""};
}

Finding Cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int usable = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
  return {
      "cores", State::kIn,
      fmt::format("{} of {} usable by this process", usable, std::thread::hardware_concurrency()),
      ""};
}

Finding Quota() {
  std::string why_not;
  try {
    const std::string means = ProbeQuotaMeans(why_not);
    if (!means.empty()) return {"quota", State::kIn, means, ""};
  } catch (const std::exception& error) {
    why_not = error.what();
  }
  return {"quota", State::kPartly, "lanes hold by cores alone: " + why_not, ""};
}

Finding HugePages() {
  const std::string setting = FirstLine("/sys/kernel/mm/transparent_hugepage/enabled");
  if (setting.find("[always]") != std::string::npos ||
      setting.find("[madvise]") != std::string::npos) {
    return {"huge pages", State::kIn, setting, ""};
  }
  return {"huge pages", State::kOut,
          setting.empty() ? "this kernel has no transparent huge pages" : setting,
          "sampling and gathering are slower without: echo madvise > "
          "/sys/kernel/mm/transparent_hugepage/enabled (root)"};
}

// Tries it in a child, which takes the new namespace with it when it ends.
Finding Namespaces() {
  const char* way_out = "run as root (in a container: with CAP_SYS_ADMIN and CAP_NET_ADMIN)";
  if (!Exists("/usr/sbin/ip") && !Exists("/sbin/ip") && !Exists("/usr/bin/ip")) {
    return {"netns", State::kOut, "iproute2 is missing", "apt-get install iproute2"};
  }
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWNET) == 0 ? 0 : 1);
  int status = 1;
  if (child > 0) waitpid(child, &status, 0);
  if (status == 0) {
    return {"netns", State::kIn, "links of a known rate can be made between namespaces", ""};
  }
  return {"netns", State::kOut, "no right to make network namespaces: links are modelled", way_out};
}

std::vector<Finding> Transports() {
  return {{"tcp", State::kIn, "ordinary sockets, on loopback or between machines", ""},
          {"tls", State::kOut, "this version has no encryption",
           "keep to loopback or trusted networks"},
          {"ring", State::kOut, "this version has no shared-memory transport", "use tcp"},
          {"ucx", State::kOut, "this version has no RDMA transport", "use tcp"}};
}

Finding Cuda() {
  return {"cuda", State::kOut,
          std::string("this version has no CUDA parts; driver ") +
              (Exists("/dev/nvidiactl") ? "found" : "not found"),
          ""};
}

// Output of `python -c code`, "" where it fails.
std::string Ask(const std::string& python, const std::string& code) {
  const std::string command = fmt::format("'{}' -c \"{}\" 2>/dev/null", python, code);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) return "";
  std::string output;
  std::array<char, 256> chunk;
  while (std::fgets(chunk.data(), chunk.size(), pipe.get()) != nullptr) output += chunk.data();
  return output;
}

std::vector<Finding> Python() {
  const std::string python = FindPython();
  if (python.empty()) {
    return {{"python", State::kOut, "no python3 in PATH", "apt-get install python3 python3-venv"}};
  }
  // Versions from the packages' metadata: importing torch would take seconds.
  const std::string answer = Ask(python,
                                 "import importlib.metadata as m, platform\n"
                                 "print('python', platform.python_version())\n"
                                 "for name in ('offpath', 'torch', 'torch_geometric'):\n"
                                 "  try: print(name, m.version(name))\n"
                                 "  except m.PackageNotFoundError: pass\n");
  std::vector<Finding> findings;
  const auto version = [&answer](const std::string& name) -> std::string {
    const size_t begin = ("\n" + answer).find("\n" + name + " ");
    if (begin == std::string::npos) return "";
    const size_t value = begin + name.size() + 1;
    return answer.substr(value, answer.find('\n', value) - value);
  };
  constexpr struct {
    const char* name;
    const char* way_out;
  } kPackages[] = {
      {"python", ""},
      {"offpath", "in Offpath's folder: scripts/quickstart.sh, or pip install ."},
      {"torch", "pip install torch==2.13.0"},
      {"torch_geometric", "pip install torch_geometric==2.8.1"},
  };
  for (const auto& package : kPackages) {
    const std::string found = version(package.name);
    const std::string part = package.name == std::string("offpath") ? "package" : package.name;
    if (!found.empty()) {
      findings.push_back({part, State::kIn, found + " (" + python + ")", ""});
    } else {
      findings.push_back({part, State::kOut, python + " does not have it", package.way_out});
    }
  }
  return findings;
}

Finding WordNet() {
  if (Exists("/usr/share/wordnet/data.noun")) {
    return {"wordnet", State::kIn, "/usr/share/wordnet", ""};
  }
  return {"wordnet", State::kOut, "no dictionary files in /usr/share/wordnet",
          "apt-get install wordnet-base"};
}

Finding Llama() {
#ifdef OFFPATH_LLAMA
  return {"llama.cpp", State::kIn,
          "models run with Offpath's attention: offpath attention generate", ""};
#else
  return {"llama.cpp", State::kOut, "this program was built without",
          "in Offpath's folder: scripts/llama.sh, and build again"};
#endif
}

// Benchmarks alone need it, and they are run from the source folder.
Finding GraphBolt() {
  const char* environment = "build/peers/graphbolt";
  if (Exists(environment)) return {"graphbolt", State::kIn, environment, ""};
  return {"graphbolt", State::kOut, "the benchmarks' peer is not installed in this folder",
          "in Offpath's folder: bench/peers/install.sh graphbolt"};
}

}  // namespace

std::vector<Finding> Diagnose() {
  std::vector<Finding> findings = {Build(), Simd(), Cores(), Quota(), HugePages(), Namespaces()};
  const auto append = [&findings](std::vector<Finding> more) {
    findings.insert(findings.end(), more.begin(), more.end());
  };
  append(Transports());
  findings.push_back(Cuda());
  append(Python());
  findings.push_back(Llama());
  findings.push_back(WordNet());
  findings.push_back(GraphBolt());
  return findings;
}

}  // namespace offpath::cli
