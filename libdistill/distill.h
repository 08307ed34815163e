// Everything that a training program includes.
#pragma once

#include "libdistill/comm/communicator.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/version.h"
#include "libdistill/data/data_sharder.h"
#include "libdistill/data/dataset.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/generate.h"
#include "libdistill/text/chat_template.h"
#include "libdistill/text/tokenizer.h"
#include "libdistill/train/distiller.h"
#include "libdistill/train/run.h"
#include "libdistill/train/trainer.h"
