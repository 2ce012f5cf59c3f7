#include "embps/tensor.h"

#include <cstring>

#include "client/cpp/tensor_pool.h"
#include "gtest/gtest.h"

namespace embps {
namespace {

KeyedTensor Matrix() {
  KeyedTensor tensor;
  tensor.names = {"a", "b"};
  tensor.dims = {2, 1};
  tensor.rows = {2, 2};
  tensor.element_count = 6;
  tensor.data = client::TensorPool(0).Allocate(6 * sizeof(float));
  const float values[] = {1, 2, 3, 4, 5, 6};
  std::memcpy(tensor.data.get(), values, sizeof(values));
  return tensor;
}

TEST(KeyedTensorTest, ColumnsOfAMatrix) {
  const KeyedTensor tensor = Matrix();
  EXPECT_EQ(tensor.stride(), 3);
  EXPECT_EQ(tensor.offset(1), 2);
  EXPECT_EQ(tensor.Find("b"), 1);
  EXPECT_EQ(tensor.Find("c"), -1);
  EXPECT_EQ(tensor.row(0, 1)[1], 5.0f);
  EXPECT_EQ(tensor.row(1, 0)[0], 3.0f);
}

TEST(KeyedTensorTest, BlocksOfAVariableBatch) {
  KeyedTensor tensor = Matrix();
  tensor.variable_batch = true;
  tensor.rows = {1, 4};
  EXPECT_EQ(tensor.offset(1), 2);
  EXPECT_EQ(tensor.row(0, 0)[1], 2.0f);
  EXPECT_EQ(tensor.row(1, 3)[0], 6.0f);
}

TEST(TensorPoolTest, GivesTheLatestReturnedBufferThatFits) {
  client::TensorPool pool(1 << 20);
  std::shared_ptr<char> first = pool.Allocate(5000);
  char* const address = first.get();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % client::kTensorAlignment, 0u);
  first.reset();
  std::shared_ptr<char> again = pool.Allocate(6000);
  EXPECT_EQ(again.get(), address);
  EXPECT_NE(pool.Allocate(6000).get(), address);
  EXPECT_EQ(pool.Allocate(0), nullptr);
}

TEST(TensorPoolTest, BuffersOutliveThePool) {
  std::shared_ptr<char> buffer;
  {
    client::TensorPool pool(1 << 20);
    buffer = pool.Allocate(100);
  }
  std::memset(buffer.get(), 1, 100);
}

}  // namespace
}  // namespace embps
