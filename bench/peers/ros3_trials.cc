// Trials of an HDF5 file in S3, as a program of today reads them: HDF5's own ros3 driver, one H5Dread a data set.
//
//   peer_ros3_trials URL KEY SECRET REGION NUMBER...    which trials, in order of name; each is group /trial_NNNN
#include <hdf5.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "error: %s\n", what.c_str());
  std::exit(1);
}

double SumOfTrial(hid_t file, int number) {
  char name[64];
  std::snprintf(name, sizeof(name), "/trial_%04d/input_features", number);
  const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  if (dataset < 0) Fail(std::string("cannot open ") + name);
  const hid_t space = H5Dget_space(dataset);
  std::vector<float> values(static_cast<size_t>(H5Sget_simple_extent_npoints(space)));
  if (H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) Fail("cannot read");
  H5Sclose(space);
  H5Dclose(dataset);
  std::snprintf(name, sizeof(name), "/trial_%04d/seq_class_ids", number);
  const hid_t ids = H5Dopen2(file, name, H5P_DEFAULT);
  const hid_t ids_space = H5Dget_space(ids);
  std::vector<int> classes(static_cast<size_t>(H5Sget_simple_extent_npoints(ids_space)));
  if (H5Dread(ids, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, classes.data()) < 0) Fail("cannot read");
  H5Sclose(ids_space);
  H5Dclose(ids);
  double sum = 0;
  for (const float value : values) sum += value;
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) Fail("usage: peer_ros3_trials URL KEY SECRET REGION NUMBER...");
  H5FD_ros3_fapl_t how = {};
  how.version = H5FD_CURR_ROS3_FAPL_T_VERSION;
  how.authenticate = true;
  std::snprintf(how.secret_id, sizeof(how.secret_id), "%s", argv[2]);
  std::snprintf(how.secret_key, sizeof(how.secret_key), "%s", argv[3]);
  std::snprintf(how.aws_region, sizeof(how.aws_region), "%s", argv[4]);
  const auto start = std::chrono::steady_clock::now();
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  if (H5Pset_fapl_ros3(access, &how) < 0) Fail("this HDF5 has no ros3 driver");
  const hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, access);
  if (file < 0) Fail(std::string("cannot open ") + argv[1]);
  double sum = 0;
  for (int i = 5; i < argc; ++i) sum += SumOfTrial(file, std::atoi(argv[i]));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("JSON {\"seconds\": %.4f, \"trials_s\": %.2f, \"checksum\": \"%.3f\"}\n", seconds, (argc - 5) / seconds,
              sum);
  H5Fclose(file);
  return 0;
}
