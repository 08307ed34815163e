#include "libdistill/store/parquet.h"

#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/arrow_value.h"

namespace distill {
namespace {

constexpr int64_t kRowsOfChunk = 1024;

// What failed in our own file comes back through Arrow with its code.
arrow::Status ToArrow(const absl::Status& status) {
  const std::string message(status.message());
  return absl::IsInvalidArgument(status) || absl::IsOutOfRange(status) ? arrow::Status::Invalid(message)
                                                                       : arrow::Status::IOError(message);
}

class ArrowFile : public arrow::io::RandomAccessFile {
 public:
  explicit ArrowFile(std::shared_ptr<const ReadableFile> file) : file_(std::move(file)) {}

  arrow::Result<int64_t> GetSize() override { return file_->size(); }
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override {
    position_ = position;
    return arrow::Status::OK();
  }
  // Any thread, without the position.
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t size, void* out) override {
    if (position < 0 || position > file_->size() || size < 0)
      return arrow::Status::Invalid("a range outside of the file");
    size = std::min(size, file_->size() - position);
    const absl::Status read =
        file_->ReadAt(position, absl::MakeSpan(static_cast<char*>(out), static_cast<size_t>(size)));
    if (!read.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      failed_.Update(read);
      return ToArrow(read);
    }
    return size;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t size) override {
    // A crafted footer may ask for more than there is: never allocate that.
    size = std::clamp<int64_t>(file_->size() - position, 0, size);
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::ResizableBuffer> buffer, arrow::AllocateResizableBuffer(size));
    ARROW_ASSIGN_OR_RAISE(const int64_t count, ReadAt(position, size, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(count));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }
  arrow::Result<int64_t> Read(int64_t size, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t count, ReadAt(position_, size, out));
    position_ += count;
    return count;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t size) override {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, ReadAt(position_, size));
    position_ += buffer->size();
    return buffer;
  }

  // The store's own error, where it was one.
  absl::Status failed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failed_;
  }

 private:
  const std::shared_ptr<const ReadableFile> file_;
  int64_t position_ = 0;
  mutable std::mutex mutex_;
  absl::Status failed_;
};

class ParquetChunk : public RowChunk {
 public:
  ParquetChunk(std::string path, int64_t first, std::shared_ptr<arrow::RecordBatch> batch)
      : path_(std::move(path)), first_(first), batch_(std::move(batch)) {}

  int64_t first_row() const override { return first_; }

  absl::Status ForEach(absl::FunctionRef<bool(absl::StatusOr<FileRow> row)> on_row) const override {
    for (int64_t i = 0; i < batch_->num_rows(); ++i) {
      FileRow row{first_ + i, {}};
      row.value.kind = JsonValue::Kind::kObject;
      for (int column = 0; column < batch_->num_columns(); ++column) {
        row.value.members.emplace_back(batch_->column_name(column), ValueOf(*batch_->column(column), i));
      }
      if (!on_row(std::move(row))) break;
    }
    return absl::OkStatus();
  }
  int64_t CountRows() const override { return batch_->num_rows(); }

 private:
  const std::string path_;
  const int64_t first_;
  const std::shared_ptr<arrow::RecordBatch> batch_;
};

class ParquetRows : public RowReader {
 public:
  explicit ParquetRows(std::shared_ptr<const ReadableFile> file)
      : path_(file->path()), file_(std::make_shared<ArrowFile>(std::move(file))) {}

  absl::Status Open(const std::vector<std::string>& wanted) {
    return Guard([&]() -> absl::Status {
      parquet::arrow::FileReaderBuilder builder;
      DISTILL_RETURN_IF_ERROR(FromArrow(builder.Open(file_), absl::StatusCode::kInvalidArgument));
      parquet::ArrowReaderProperties properties(/*use_threads=*/false);
      properties.set_batch_size(kRowsOfChunk);
      properties.set_pre_buffer(true);  // a row group's columns come in few requests
      DISTILL_RETURN_IF_ERROR(
          FromArrow(builder.properties(properties)->Build(&reader_), absl::StatusCode::kInvalidArgument));
      return ChooseColumns(wanted);
    });
  }

  absl::StatusOr<std::unique_ptr<RowChunk>> NextChunk() override {
    std::unique_ptr<RowChunk> chunk;
    const absl::Status status = Guard([&]() -> absl::Status {
      while (chunk == nullptr && (batches_ != nullptr || group_ < reader_->num_row_groups())) {
        if (batches_ == nullptr) DISTILL_RETURN_IF_ERROR(OpenRowGroup());
        std::shared_ptr<arrow::RecordBatch> batch;
        DISTILL_RETURN_IF_ERROR(FromArrow(batches_->ReadNext(&batch), absl::StatusCode::kDataLoss));
        if (batch == nullptr) {
          batches_ = nullptr;
          continue;
        }
        // Lengths and offsets that a damaged page has made up must not be followed.
        DISTILL_RETURN_IF_ERROR(FromArrow(batch->ValidateFull(), absl::StatusCode::kDataLoss));
        const int64_t first = next_row_;
        next_row_ += batch->num_rows();
        if (batch->num_rows() > 0) chunk = std::make_unique<ParquetChunk>(path_, first, std::move(batch));
      }
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return chunk;
  }

  absl::StatusOr<int64_t> SkipRows(int64_t most) override {
    int64_t skipped = 0;
    const absl::Status status = Guard([&]() -> absl::Status {
      if (batches_ != nullptr) {
        if (group_end_ - next_row_ > most) return absl::OkStatus();
        skipped = group_end_ - next_row_;
        batches_ = nullptr;
      }
      const auto metadata = reader_->parquet_reader()->metadata();
      for (; group_ < reader_->num_row_groups(); ++group_) {
        const auto group = metadata->RowGroup(group_);
        if (group->num_rows() < 0)
          return absl::DataLossError(absl::StrCat(path_, ": damaged Parquet: a row group of ", group->num_rows(),
                                                  " rows; fetch or write it again"));
        if (group->num_rows() > most - skipped) break;
        skipped += group->num_rows();
        bytes_read_ += group->total_compressed_size();
      }
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    next_row_ += skipped;
    return skipped;
  }

  int64_t bytes_read() const override { return bytes_read_; }

 private:
  // `code`: of what Arrow itself finds wrong; a store's error keeps its own.
  absl::Status FromArrow(const arrow::Status& status, absl::StatusCode code) const {
    if (status.ok()) return absl::OkStatus();
    const absl::Status failed = file_->failed();
    if (!failed.ok()) return Annotate(failed, absl::StrCat("reading rows after row ", next_row_ - 1));
    if (status.IsOutOfMemory()) code = absl::StatusCode::kResourceExhausted;
    return absl::Status(code, absl::StrCat(path_, ": damaged Parquet after row ", next_row_ - 1, ": ", status.message(),
                                           "; fetch or write it again"));
  }

  // Arrow reports by its Status, but the layers below it throw.
  absl::Status Guard(absl::FunctionRef<absl::Status()> body) const {
    try {
      return body();
    } catch (const std::exception& error) {
      return absl::DataLossError(absl::StrCat(path_, ": damaged Parquet: ", error.what(), "; fetch or write it again"));
    }
  }

  absl::Status ChooseColumns(const std::vector<std::string>& wanted) {
    std::shared_ptr<arrow::Schema> schema;
    DISTILL_RETURN_IF_ERROR(FromArrow(reader_->GetSchema(&schema), absl::StatusCode::kInvalidArgument));
    const parquet::SchemaDescriptor& leaves = *reader_->parquet_reader()->metadata()->schema();
    std::vector<std::string> unread;
    for (const std::shared_ptr<arrow::Field>& field : schema->fields()) {
      const bool is_wanted = wanted.empty() || std::find(wanted.begin(), wanted.end(), field->name()) != wanted.end();
      if (!is_wanted) continue;
      if (const std::string why = WhyNoJson(*field->type()); !why.empty()) {
        if (!wanted.empty())
          return absl::InvalidArgumentError(absl::StrCat(path_, ": column '", field->name(), "' has ", why));
        unread.push_back(absl::StrCat("'", field->name(), "' (", why, ")"));
        continue;
      }
      for (int leaf = 0; leaf < leaves.num_columns(); ++leaf) {
        if (leaves.GetColumnRoot(leaf)->name() == field->name()) columns_.push_back(leaf);
      }
    }
    if (!unread.empty()) LogWarning(absl::StrCat(path_, ": columns that are not read: ", absl::StrJoin(unread, ", ")));
    for (const std::string& name : wanted) {
      if (schema->GetFieldIndex(name) >= 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(path_, " has no column '", name, "'; it has ", absl::StrJoin(schema->field_names(), ", ")));
    }
    return absl::OkStatus();
  }

  absl::Status OpenRowGroup() {
    arrow::Result<std::unique_ptr<arrow::RecordBatchReader>> batches =
        reader_->GetRecordBatchReader({group_}, columns_);
    DISTILL_RETURN_IF_ERROR(FromArrow(batches.status(), absl::StatusCode::kDataLoss));
    batches_ = std::move(batches).ValueUnsafe();
    const auto group = reader_->parquet_reader()->metadata()->RowGroup(group_);
    bytes_read_ += group->total_compressed_size();
    group_end_ = next_row_ + group->num_rows();
    ++group_;
    return absl::OkStatus();
  }

  const std::string path_;
  const std::shared_ptr<ArrowFile> file_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int> columns_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;  // of the row group that is read
  int group_ = 0;                                      // the next one
  int64_t next_row_ = 1;
  int64_t group_end_ = 1;  // the row behind those of the row group that is read
  int64_t bytes_read_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowReader>> OpenParquetRows(std::shared_ptr<const ReadableFile> file,
                                                           const RowFileOptions& options) {
  auto rows = std::make_unique<ParquetRows>(std::move(file));
  DISTILL_RETURN_IF_ERROR(rows->Open(options.columns));
  return rows;
}

}  // namespace distill
