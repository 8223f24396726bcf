// primitivref: what the C++ library primitiv makes of a file, and files made by it.
//
//   primitivref make DIR            the files of testdata/primitiv
//   primitivref large DIR SEED      a model of 1 MiB and larger tensors with random bits, and a wide one of many parameters
//   primitivref dump FILE...        what the library has after loading each
//   primitivref copy IN OUT         load, and save again
//   primitivref verdicts            cases on standard input (u32le size, bytes), one character each on standard output:
//                                   A accepted, R refused, X died
//
// A model is first built with the paths of the file, since the library only fills models.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define private public // names of statistics are not to be had otherwise
#include <primitiv/primitiv.h>
#include <primitiv/msgpack/reader.h>
#undef private

namespace P = primitiv;
using std::string;
using std::uint32_t;
using std::vector;

// Any takes whatever settings a file has.
struct Any : P::Optimizer {
  std::unordered_map<string, uint32_t> uints;
  std::unordered_map<string, float> floats;
  void get_configs(std::unordered_map<string, uint32_t> &u, std::unordered_map<string, float> &f) const override { u = uints; f = floats; }
  void set_configs(const std::unordered_map<string, uint32_t> &u, const std::unordered_map<string, float> &f) override { uints = u; floats = f; }
  void configure_parameter(P::Parameter &) override {}
  void update_parameter(float, P::Parameter &) override {}
};

// Tree is a model that owns what is in it.
struct Tree {
  P::Model model;
  std::map<string, std::unique_ptr<P::Parameter>> params;
  std::map<string, std::unique_ptr<Tree>> subs;

  P::Parameter &at(const vector<string> &path, size_t i = 0) {
    if (i + 1 == path.size()) {
      auto &p = params[path[i]];
      if (!p) { p.reset(new P::Parameter()); model.add(path[i], *p); }
      return *p;
    }
    auto &s = subs[path[i]];
    if (!s) { s.reset(new Tree()); model.add(path[i], s->model); }
    return s->at(path, i + 1);
  }
};

static uint32_t kind_of(const string &name) {
  std::ifstream f(name, std::ios::binary);
  unsigned char b[15] = {};
  f.read(reinterpret_cast<char *>(b), 15);
  return f.gcount() == 15 ? b[13] << 8 | b[14] : 0xffffffff;
}

static void skip_tensor(P::msgpack::Reader &r) {
  vector<uint32_t> dims;
  uint32_t batch;
  P::msgpack::objects::Binary data;
  r >> dims >> batch >> data;
}

// build gives the tree the paths of a model file, read with the library's own reader.
static void build(const string &name, Tree &tree) {
  std::ifstream f(name);
  P::msgpack::Reader r(f);
  uint32_t major, minor, kind, n;
  r >> major >> minor >> kind >> n;
  for (uint32_t i = 0; i < n; ++i) {
    vector<string> path;
    r >> path;
    if (path.empty()) throw std::runtime_error("empty path");
    tree.at(path);
    skip_tensor(r);
    uint32_t stats;
    r >> stats;
    for (uint32_t j = 0; j < stats; ++j) {
      string stat;
      r >> stat;
      skip_tensor(r);
    }
  }
}

static string hex(const string &s) {
  string out;
  char b[3];
  for (unsigned char c : s) { std::snprintf(b, 3, "%02x", c); out += b; }
  return out;
}

// show prints dimensions, batch and bits of a tensor: all of them, or a hash (FNV-1a, 64 bits) of their bytes.
static void show(const string &what, const P::Tensor &t) {
  const P::Shape s = t.shape();
  std::cout << what << " [";
  for (uint32_t i = 0; i < s.depth(); ++i) std::cout << (i ? "," : "") << s[i];
  std::cout << "]x" << s.batch() << " ";
  const vector<float> v = t.to_vector();
  char b[24];
  if (v.size() <= 16) {
    for (const float &x : v) {
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      std::snprintf(b, sizeof b, "%08x", bits);
      std::cout << b;
    }
  } else {
    std::uint64_t h = 14695981039346656037ull;
    for (const unsigned char *p = reinterpret_cast<const unsigned char *>(v.data()), *e = p + 4 * v.size(); p < e; ++p) h = (h ^ *p) * 1099511628211ull;
    std::snprintf(b, sizeof b, "#%016llx", static_cast<unsigned long long>(h));
    std::cout << b;
  }
  std::cout << "\n";
}

static void show(const P::Parameter &p) {
  show("value", p.value());
  std::map<string, const P::Tensor *> sorted;
  for (const auto &kv : p.stats_) sorted[kv.first] = &kv.second;
  for (const auto &kv : sorted) show("stat " + hex(kv.first) + ".", *kv.second);
}

static void show(const Any &o) {
  std::map<string, uint32_t> u(o.uints.begin(), o.uints.end());
  for (const auto &kv : u) std::cout << "uint " << hex(kv.first) << ". " << kv.second << "\n";
  std::map<string, float> f(o.floats.begin(), o.floats.end());
  for (const auto &kv : f) {
    uint32_t bits;
    std::memcpy(&bits, &kv.second, 4);
    char b[9];
    std::snprintf(b, 9, "%08x", bits);
    std::cout << "float " << hex(kv.first) << ". " << b << "\n";
  }
}

// load loads a file, and then shows it, and saves it again if out is not empty.
static void load(const string &name, bool shown, const string &out) {
  switch (kind_of(name)) {
  case 0x300: {
    Tree tree;
    build(name, tree);
    tree.model.load(name);
    if (shown) {
      for (const auto &kv : tree.model.get_all_parameters()) {
        std::cout << "parameter";
        for (const string &e : kv.first) std::cout << " " << hex(e) << ".";
        std::cout << "\n";
        show(*kv.second);
      }
    }
    if (!out.empty()) tree.model.save(out);
    return;
  }
  case 0x400: {
    Any o;
    o.load(name);
    if (shown) show(o);
    if (!out.empty()) o.save(out);
    return;
  }
  default: { // what is no parameter is refused here
    P::Parameter p;
    p.load(name);
    if (shown) show(p);
    if (!out.empty()) p.save(out);
  }
  }
}

// verdicts tries each case in a process of its own, with little memory: a claim of gigabytes is std::bad_alloc.
static void verdicts() {
  const int fd = memfd_create("case", 0);
  const string name = "/proc/self/fd/" + std::to_string(fd);
  for (;;) {
    unsigned char b[4];
    if (std::fread(b, 1, 4, stdin) != 4) break;
    string data(b[0] | b[1] << 8 | b[2] << 16 | uint32_t(b[3]) << 24, 0);
    if (std::fread(&data[0], 1, data.size(), stdin) != data.size()) std::exit(3);
    if (ftruncate(fd, 0) || pwrite(fd, data.data(), data.size(), 0) != ssize_t(data.size())) std::exit(3);
    const pid_t child = fork();
    if (child == 0) {
      const rlimit memory = {1u << 30, 1u << 30}, seconds = {10, 10}, core = {0, 0};
      setrlimit(RLIMIT_AS, &memory);
      setrlimit(RLIMIT_CPU, &seconds);
      setrlimit(RLIMIT_CORE, &core);
      try {
        load(name, false, "");
      } catch (const std::exception &) {
        _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::putchar(!WIFEXITED(status) ? 'X' : WEXITSTATUS(status) ? 'R' : 'A');
  }
}

// fill makes n floats that differ from call to call, the same in every run.
static vector<float> fill(size_t n) {
  static std::mt19937 random(20260101);
  vector<float> v(n);
  for (float &x : v) x = (int(random() % 20001) - 10000) / 1024.f;
  return v;
}

static P::Parameter &set(P::Parameter &p, const P::Shape &s) {
  p.init(s, fill(s.size()));
  return p;
}

// bits makes a tensor of these bit patterns.
static vector<float> bits(const vector<uint32_t> &patterns) {
  vector<float> v(patterns.size());
  std::memcpy(v.data(), patterns.data(), 4 * v.size());
  return v;
}

static void stat(P::Parameter &p, const string &name, const P::Shape &s) {
  p.add_stats(name, s);
  p.stats(name).reset_by_vector(fill(s.size()));
}

template <class O> static void train(P::Parameter &p, int steps, O &&o) {
  o.add(p);
  for (int i = 0; i < steps; ++i) {
    o.reset_gradients();
    p.gradient().reset_by_vector(fill(p.shape().size()));
    o.update();
  }
}

template <class O> static void saved(const string &dir, const string &name, O &&o) {
  o.save(dir + "/optimizer-" + name + "-default.primitiv");
  o.set_epoch(4000000000u);
  o.set_learning_rate_scaling(0.5);
  o.set_weight_decay(0.25);
  o.set_gradient_clipping(5);
  o.save(dir + "/optimizer-" + name + "-set.primitiv");
}

static void make(const string &dir) {
  auto save = [&](const string &name, const P::Parameter &p) { p.save(dir + "/parameter-" + name + ".primitiv"); };
  {
    P::Parameter p;
    save("scalar", set(p, {}));
    save("matrix", set(p, {3, 5}));
    vector<float> index; // each value tells its place
    for (int k = 0; k < 4; ++k) for (int j = 0; j < 3; ++j) for (int i = 0; i < 2; ++i) index.push_back(100 * i + 10 * j + k);
    p.init({2, 3, 4}, index);
    save("index", p);
    save("rank8", set(p, {1, 2, 1, 3, 1, 2, 1, 2}));
    save("bin8", set(p, {63}));
    save("bin16", set(p, {64}));
    save("bin32", set(p, {1, 16384}));
    p.init({16}, bits({0, 0x80000000, 1, 0x807fffff, 0x00800000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
      0xffc00000, 0x7f800001, 0xffbfffff, 0x7fffffff, 0x3f800000, 0xdeadbeef, 0x01020304}));
    save("bits", p);
    set(p, {2});
    stat(p, "batch", P::Shape({3}, 4));
    stat(p, "batch.of.scalars", P::Shape({}, 5));
    stat(p, "one", P::Shape({}, 1));
    save("batched", p);
  }
  {
    P::Parameter p;
    set(p, {2, 3});
    train(p, 3, P::optimizers::SGD());
    train(p, 2, P::optimizers::MomentumSGD());
    train(p, 2, P::optimizers::AdaGrad());
    train(p, 2, P::optimizers::RMSProp());
    train(p, 2, P::optimizers::AdaDelta());
    train(p, 2, P::optimizers::Adam());
    save("six-optimizers", p);
    p.save(dir + "/parameter-without-stats.primitiv", false);
    P::Parameter q;
    set(q, {1});
    for (int n : {0, 1, 31, 32, 255, 256}) stat(q, string(n, 'n'), {});
    stat(q, string("nul\0 in it", 10), {});
    stat(q, "\xff\xfe", {});
    stat(q, "../../etc/passwd", {});
    stat(q, "\x1b[31m", {});
    save("names", q);
  }
  {
    P::Model().save(dir + "/model-empty.primitiv");
    Tree t;
    for (const char *name : {"", " ", "1", "10", "2", "A/", "A/a", "B", "a", "a!/b", "a.b", "aa", "b", "z", "\x7f", "\x80/a", "\xc3\xa9", "\xff"}) {
      const string s = name;
      const size_t cut = s.find('/');
      set(t.at(cut == string::npos ? vector<string>{s} : vector<string>{s.substr(0, cut), s.substr(cut + 1)}), {2});
    }
    t.model.save(dir + "/model-order.primitiv");
  }
  {
    Tree t;
    set(t.at({"\xe5\xb1\xa4", "\xe9\x87\x8d\xe3\x81\xbf"}), {2, 2});
    set(t.at({"\xe5\xb1\xa4", "\xf0\x9f\x99\x82"}), {2});
    set(t.at({"e\xcc\x81"}), {1}); // é, decomposed
    set(t.at({"\xc3\xa9"}), {1});
    set(t.at({"sm.p"}), {1});
    set(t.at({"sm", "p"}), {2});
    t.model.save(dir + "/model-unicode.primitiv");
  }
  {
    Tree t;
    train(set(t.at({"encoder", "w"}), {4, 3}), 2, P::optimizers::Adam());
    train(set(t.at({"encoder", "b"}), {4}), 2, P::optimizers::Adam());
    train(set(t.at({"decoder", "attention", "w"}), {3, 4}), 2, P::optimizers::Adam());
    train(set(t.at({"decoder", "b"}), {3}), 1, P::optimizers::MomentumSGD());
    set(t.at({"scale"}), {});
    t.model.save(dir + "/model-nested.primitiv");
    t.model.save(dir + "/model-nested-without-stats.primitiv", false);
  }
  {
    Tree t;
    vector<string> path;
    for (int i = 0; i < 17; ++i) path.push_back("l" + std::to_string(i));
    set(t.at(path), {3});
    t.model.save(dir + "/model-deep.primitiv");
  }
  {
    P::Parameter p;
    set(p, {2, 2});
    P::Model a, b, root;
    a.add("p", p);
    b.add("p", p);
    root.add("a", a);
    root.add("b", b);
    root.add("p", p);
    root.save(dir + "/model-shared.primitiv");
  }
  saved(dir, "SGD", P::optimizers::SGD());
  saved(dir, "MomentumSGD", P::optimizers::MomentumSGD());
  saved(dir, "AdaGrad", P::optimizers::AdaGrad());
  saved(dir, "RMSProp", P::optimizers::RMSProp());
  saved(dir, "AdaDelta", P::optimizers::AdaDelta());
  saved(dir, "Adam", P::optimizers::Adam());
  {
    Any o;
    o.save(dir + "/optimizer-own-empty.primitiv");
    for (int i = 0; i < 17; ++i) o.uints["count." + std::to_string(i)] = i * 0x0f0f0f0fu;
    const vector<float> odd = bits({0x7fc00000, 0xff800000, 0x80000000, 0x7f800001, 0x00000001});
    for (size_t i = 0; i < 20; ++i) o.floats["Own." + std::to_string(i)] = i < odd.size() ? odd[i] : -float(i);
    o.floats[string("\xff\0", 2)] = 1;
    o.save(dir + "/optimizer-own.primitiv");
  }
}

static void large(const string &dir, uint32_t seed) {
  std::mt19937 random(seed);
  auto noise = [&](size_t n) {
    vector<uint32_t> v(n);
    for (uint32_t &x : v) x = random();
    return bits(v);
  };
  Tree t;
  t.at({"encoder", "embedding"}).init({512, 513}, noise(512 * 513)); // a little more than 1 MiB
  t.at({"encoder", "exact"}).init({1 << 18}, noise(1 << 18));
  t.at({"decoder", "large"}).init({1000, 3, 1, 1001}, noise(3003000)); // 12 MB
  for (int i = 0; i < 2000; ++i) {
    string name;
    for (int n = 1 + random() % 40; n > 0; --n) name += char(random());
    const P::Shape s({1 + uint32_t(random() % 9), 1 + uint32_t(random() % 9)});
    t.at({name + std::to_string(i), "p"}).init(s, noise(s.size()));
  }
  t.model.save(dir + "/large.primitiv");
}

int main(int argc, char **argv) {
  P::devices::Naive device;
  P::Device::set_default(device);
  const string command = argc > 1 ? argv[1] : "";
  try {
    if (command == "make" && argc == 3) {
      make(argv[2]);
    } else if (command == "large" && argc == 4) {
      large(argv[2], std::strtoul(argv[3], nullptr, 10));
    } else if (command == "dump" && argc > 2) {
      for (int i = 2; i < argc; ++i) {
        if (argc > 3) std::cout << "file " << argv[i] << "\n";
        load(argv[i], true, "");
      }
    } else if (command == "copy" && argc == 4) {
      load(argv[2], false, argv[3]);
    } else if (command == "verdicts" && argc == 2) {
      verdicts();
    } else {
      std::cerr << "usage: primitivref make DIR | large DIR SEED | dump FILE... | copy IN OUT | verdicts\n";
      return 2;
    }
  } catch (const std::exception &e) {
    std::cerr << "primitivref: " << e.what() << "\n";
    return 1;
  }
}
