// Threads that make what a training step needs before it is asked for, several pieces at once, and hand the pieces out
// in order. Knows nothing of samples: data/loader.h does.
//
//   WorkAhead ahead([&] { return std::make_shared<MyWork>(next++); }, {.threads = 4, .capacity = 8});
//   const std::shared_ptr<WorkAhead::Work> first = ahead.Next();   // waits until all of its parts are done
//
// Each piece has parts, which are claimed in order and done by any threads: a thread takes the first part that nobody
// has claimed, of the oldest piece that has one, and where there is none it begins another piece, as long as there is
// room. So a slow part holds up no other, and at most `threads` parts are under way.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace distill {

class WorkAhead {
 public:
  class Work {
   public:
    virtual ~Work() = default;
    virtual int64_t num_parts() const = 0;  // at least 1
    // How much of the capacity it takes until it is handed out.
    virtual int64_t weight() const = 0;
    // Whether nothing is begun after it, before it was handed out and Next is called again, or Drop.
    virtual bool is_last() const = 0;
    // Any thread; several at once, each with another part. Throws nothing.
    virtual void Do(int64_t part) = 0;
  };
  // Begins the next piece: quick, and without the parts. One thread at a time calls it, though not always the same.
  // Throws nothing.
  using Begin = std::function<std::shared_ptr<Work>()>;

  struct Options {
    int64_t threads = 0;   // 0: all is done by the thread that calls Next, when it does
    int64_t capacity = 1;  // sum of the weights of what was begun and not handed out; one piece may exceed it
    // After so many pieces nothing is begun ahead: what comes then is made when it is asked for.
    int64_t pieces = std::numeric_limits<int64_t>::max();
  };

  // Starts nothing yet. What `begin` and the parts use must outlive this.
  WorkAhead(Begin begin, const Options& options);
  // Waits for the parts that are under way, and begins no other.
  ~WorkAhead();
  WorkAhead(const WorkAhead&) = delete;
  WorkAhead& operator=(const WorkAhead&) = delete;

  // The next piece, with all of its parts done. The first call starts the threads: as many as the system gives, where
  // it gives none (a warning says so) this thread does the work.
  std::shared_ptr<Work> Next();

  // Forgets all that was begun. When it returns no thread is in `begin`, nor will be before Next; parts of forgotten
  // pieces may be under way still.
  void Drop();
  // Calls `use` while no thread is in `begin`.
  void WhileNoneBegins(const std::function<void()>& use);

 private:
  struct Piece {
    explicit Piece(std::shared_ptr<Work> made) : work(std::move(made)), num_parts(work->num_parts()) {}
    const std::shared_ptr<Work> work;
    const int64_t num_parts;
    std::atomic<int64_t> claimed = 0, done = 0;
    std::atomic<bool> is_dropped = false;
    bool is_finished = false;  // under mutex_
  };

  void StartThreads();
  void Serve();
  // These four with mutex_ locked.
  bool CanBegin() const;
  void BeginOne(std::unique_lock<std::mutex>& lock);
  void ForgetAll();
  bool HasMoreToDo() const { return CanBegin() || !unclaimed_.empty(); }
  // Does parts that nobody has claimed, until there is none; true: it did the last one to be finished.
  static bool DoParts(Piece& piece);

  const Begin begin_;
  const Options options_;

  std::mutex mutex_;
  std::condition_variable work_;   // for the threads: there may be something to do
  std::condition_variable ready_;  // for the callers: the first piece is finished, or no thread is in begin_
  std::deque<std::shared_ptr<Piece>> pieces_;     // begun and not handed out, in order
  std::deque<std::shared_ptr<Piece>> unclaimed_;  // those of them that may have parts nobody has claimed
  int64_t weight_ = 0;                            // of pieces_
  int64_t pieces_left_;                           // to be handed out, before nothing is begun ahead any more
  bool may_begin_ = false;
  bool has_ended_ = false;     // with a last piece
  bool is_beginning_ = false;  // a thread is in begin_
  bool is_awaited_ = false;    // a caller waits in Next
  bool stops_ = false;
  bool has_started_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace distill
