"""How JAX multiplies float32 matrices by default: the relative error against float64 tells TF32 (about 3e-4) from float32 (below
1e-6). Prints one line."""
import jax
import numpy

numbers = numpy.random.default_rng(0)
a, b = (numbers.standard_normal((1024, 1024)).astype(numpy.float32) for _ in range(2))
exact = a.astype(numpy.float64) @ b.astype(numpy.float64)
error = numpy.linalg.norm(numpy.asarray(jax.jit(lambda a, b: a @ b)(a, b)) - exact) / numpy.linalg.norm(exact)
kind = "bfloat16" if error > 1e-3 else "TF32" if error > 1e-5 else "float32"
print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}: products of float32 matrices are off by {error:.1e}: {kind}")
