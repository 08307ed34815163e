"""From nothing to the first Gloo all-reduce. torchrun --nproc-per-node N gloo_start.py"""
import torch, torch.distributed as dist
dist.init_process_group("gloo"); x = torch.ones(1); dist.all_reduce(x); assert x.item() == dist.get_world_size()
dist.destroy_process_group()
