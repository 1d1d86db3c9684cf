"""A card that isn't there: PyTorch's real CUDA allocator on any machine.

The libraries below PyTorch's CUDA build (libcudart, cuBLAS, cuDNN, cuFFT, NVML) are stood in for by small ones of C. No kernel runs.
PyTorch's own allocator, its CUDA operators with what they allocate for a moment, autograd and AMP are the real ones, and so are its words
when memory runs out. "Device memory" is address space of the host; a file that all processes map counts it.

What is played is never called measured: there is no time here, and workspaces, contexts and kernels have the sizes that they are told to
have.
"""
