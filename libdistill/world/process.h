// What a process of a job needs before it does anything: streams that are open, signals that do not end it for a small
// reason, descriptors enough, and an end when its launcher ends.
#pragma once

#include <cstdint>
#include <string>

namespace distill {

// The exit code of a rank that has committed a checkpoint after a notice (SIGTERM, SIGUSR1, max_run_seconds): the job
// is to be started again. Launchers pass it on, and it is no failure.
inline constexpr int kExitCheckpointed = 85;

// Names the pipe whose other end the launcher holds while it lives, as "descriptor:inode".
inline constexpr char kLauncherPipe[] = "DISTILL_LAUNCHER_PIPE";

// The first lines of a rank. Opens /dev/null for each of stdin, stdout and stderr that is closed. Ignores SIGPIPE and
// SIGXFSZ: output that nobody reads is dropped, a file that grows too large is an error of its write. Raises the
// limit of open files to what is allowed (world/descriptors.h says what that means for children). Lets malloc keep what
// is freed in blocks below 32 MiB (with glibc), and oneDNN kernels of 128 shapes, unless
// ONEDNN_PRIMITIVE_CACHE_CAPACITY says otherwise. Handles std::bad_alloc that nobody catches (core/out_of_memory.h),
// and notes SIGUSR1 (core/interruption.h). Under distillrun, the kernel ends this process when the launcher is gone.
// Idempotent; before the first thread.
void PrepareProcess();

// The parts that a launcher needs itself.
void OpenStandardStreams();
// The soft limit of open files; afterwards as high as it may be, at most 2^20.
int64_t RaiseDescriptorLimit();

// What to do about EMFILE or ENFILE, to be appended to an error's text; empty for any other error number.
std::string DescriptorRemedy(int error);

}  // namespace distill
