// oracle.cpp: the C++ FlatBuffers verifier over code generated from schema/*.fbs, for internal/fb's differential test.
//
// Reads from standard input, again and again, one byte for the root (their order is fbtest.Roots), four bytes for the length,
// and a buffer; answers '1' if the verifier accepts it and '0' if not, whenever 65536 answers are due and at the end of input.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bundled_program_generated.h"
#include "flat_tensor_generated.h"
#include "native_graph_generated.h"
#include "program_generated.h"
#include "rten_generated.h"

static bool accepts(int root, flatbuffers::Verifier &v) {
  switch (root) {
    case 0: return v.VerifyBuffer<ptdfb::FlatTensor>();
    case 1: return v.VerifyBuffer<ptdfb::LegacyFlatTensor>();
    case 2: return v.VerifyBuffer<ptefb::Program>();
    case 3: return v.VerifyBuffer<ptefb::BundledProgram>();
    case 4: return v.VerifyBuffer<rtenfb::Model>();
    case 5: return v.VerifyBuffer<ptnfb::Program>();
  }
  fprintf(stderr, "oracle: no root %d\n", root);
  exit(2);
}

int main() {
  setvbuf(stdout, nullptr, _IOFBF, 65536);
  std::vector<uint64_t> words;
  for (int root; (root = getchar()) != EOF;) {
    uint32_t n;
    if (fread(&n, 4, 1, stdin) != 1) return 2;
    words.resize(n / 8 + 1);  // of 64 bits, so that the buffer is aligned
    auto *buf = reinterpret_cast<uint8_t *>(words.data());
    if (fread(buf, 1, n, stdin) != n) return 2;
    flatbuffers::Verifier v(buf, n);
    putchar(accepts(root, v) ? '1' : '0');
  }
}
