// Foreign functions for the tests, by XLA's typed FFI. Compiled once per session: see building.py.
#include <cstdint>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;
using F32Out = ffi::ResultBuffer<ffi::F32>;
using S64Out = ffi::ResultBuffer<ffi::S64>;

// y = scale * x + shift, in the order of memory.
static ffi::Error Affine(float scale, float shift, F32 x, F32Out y) {
  for (size_t i = 0; i < x.element_count(); ++i)
    y->typed_data()[i] = scale * x.typed_data()[i] + shift;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(affine, Affine,
    ffi::Ffi::Bind().Attr<float>("scale").Attr<float>("shift").Arg<F32>().Ret<F32>());

// Sums of pairs and their differences; an operand of which one side has one row is repeated.
static ffi::Error SumDiff(F32 x, F32 y, F32Out sum, F32Out diff) {
  const size_t n = sum->element_count(), nx = x.element_count(), ny = y.element_count();
  for (size_t i = 0; i < n; ++i) {
    const float a = x.typed_data()[i % nx], b = y.typed_data()[i % ny];
    sum->typed_data()[i] = a + b;
    diff->typed_data()[i] = a - b;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(sum_diff, SumDiff,
    ffi::Ffi::Bind().Arg<F32>().Arg<F32>().Ret<F32>().Ret<F32>());

// The numbers of elements of the operands, in all elements of the result.
static ffi::Error Sizes(F32 x, F32 y, S64Out out) {
  for (size_t i = 0; i < out->element_count(); ++i)
    out->typed_data()[i] = 1000 * x.element_count() + y.element_count();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(sizes, Sizes,
    ffi::Ffi::Bind().Arg<F32>().Arg<F32>().Ret<ffi::Buffer<ffi::S64>>());

// Adds 1 to the first element of the result alone; out of place all others are undefined. Also
// whether it was given the operand's memory.
static ffi::Error BumpFirst(F32 x, F32Out y, ffi::ResultBufferR0<ffi::S32> same) {
  y->typed_data()[0] += 1;
  same->typed_data()[0] = static_cast<const void*>(x.typed_data()) == y->typed_data();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(bump_first, BumpFirst,
    ffi::Ffi::Bind().Arg<F32>().Ret<F32>().Ret<ffi::BufferR0<ffi::S32>>());

// One number that every attribute contributes to.
static ffi::Error Attributes(bool flag, int8_t i8, int32_t i32, int64_t i64, uint8_t u8, float f32,
                             double f64, std::string_view text, ffi::Span<const int32_t> list,
                             ffi::Span<const double> reals, ffi::Dictionary nested,
                             ffi::ResultBufferR0<ffi::F64> out) {
  double total = flag + 10. * i8 + 100. * i32 + 1e3 * i64 + 1e4 * u8 + f32 + f64 + text.size();
  for (int32_t v : list) total += 1e5 * v;
  for (double v : reals) total += v;
  auto inner = nested.get<int64_t>("inner");
  if (inner.has_error()) return inner.error();
  out->typed_data()[0] = total + 1e7 * *inner;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(attributes, Attributes,
    ffi::Ffi::Bind()
        .Attr<bool>("flag").Attr<int8_t>("i8").Attr<int32_t>("i32").Attr<int64_t>("i64")
        .Attr<uint8_t>("u8").Attr<float>("f32").Attr<double>("f64").Attr<std::string_view>("text")
        .Attr<ffi::Span<const int32_t>>("list").Attr<ffi::Span<const double>>("reals")
        .Attr<ffi::Dictionary>("nested").Ret<ffi::BufferR0<ffi::F64>>());

// A side effect: counts its calls.
static int64_t calls = 0;
static ffi::Error Count(F32 x) {
  ++calls;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(count, Count, ffi::Ffi::Bind().Arg<F32>());
extern "C" int64_t number_of_calls() { return calls; }

// The number of the call, after a token; a new token comes after it.
static int32_t tickets = 0;
static ffi::Error Ticket(ffi::Token before, ffi::ResultBufferR0<ffi::S32> out,
                         ffi::Result<ffi::Token> after) {
  out->typed_data()[0] = tickets++;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(ticket, Ticket,
    ffi::Ffi::Bind().Arg<ffi::Token>().Ret<ffi::BufferR0<ffi::S32>>().Ret<ffi::Token>());

static ffi::Error Fail(F32 x, F32Out y) {
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, "the kernel refuses this");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(fail, Fail, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

// The calling convention before the FFI: twice the first operand, of as many elements as the
// text of the configuration says.
extern "C" void doubled(void* out, const void** in, const char* opaque, size_t length, void*) {
  const int n = std::stoi(std::string(opaque, length));
  for (int i = 0; i < n; ++i)
    static_cast<float*>(out)[i] = 2 * static_cast<const float*>(in[0])[i];
}

#ifdef WITH_TYPES
// A state between calls: the first number that it gives comes from its type.
struct Counter {
  static ffi::TypeId id;
  int32_t next;
};
ffi::TypeId Counter::id = {};
static ffi::ErrorOr<std::unique_ptr<Counter>> NewCounter() {
  return std::make_unique<Counter>(Counter{40});
}
static ffi::Error Next(Counter* counter, ffi::ResultBufferR0<ffi::S32> out) {
  out->typed_data()[0] = counter->next++;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(new_counter, NewCounter, ffi::Ffi::BindInstantiate());
XLA_FFI_DEFINE_HANDLER_SYMBOL(next, Next,
    ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Ret<ffi::BufferR0<ffi::S32>>());
extern "C" void* counter_id() { return &Counter::id; }
#endif
#ifdef WITH_TYPE_INFO
extern "C" const void* counter_info() {
  static const auto info = ffi::MakeTypeInfo<Counter>();
  return &info;
}
#endif
