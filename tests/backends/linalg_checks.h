/* linalg_checks.h: linear algebra on a device against the CPU: decompositions by what they promise and, where they are
 * unique, by their values.
 *
 * Place in the flow: included behind emulated.h or on_cuda.h, which say what `gpu`, `there` and `close_to` are; the
 * programs choose sizes, because small and large matrices go different ways. Invariant: every check can fail. */
#ifndef CNI_TESTS_LINALG_CHECKS_H
#define CNI_TESTS_LINALG_CHECKS_H

/* Far from singular. */
static inline cn_tensor *regular(int64_t count, int64_t n, cn_dtype dtype)
{
  cn_tensor *x = cn_div(cn_randn(CN_SHAPE(count, n, n)), cn_num(sqrt((double)n)));
  return cn_cast(cn_add(x, cn_mul(cn_eye(n, CN_NONE), cn_num(3))), dtype);
}

static inline cn_tensor *random_of(cn_dtype dtype, int64_t count, int64_t m, int64_t n)
{
  return cn_cast(cn_randn(CN_SHAPE(count, m, n)), dtype);
}

static inline cn_tensor *turned(cn_tensor *x) { return cn_transpose(x, -2, -1); }
static inline double loose(cn_dtype dtype, double f64) { return dtype == CN_F64 ? f64 : 3e-4; }

static inline void check_solving(int64_t n, cn_dtype dtype)
{
  double tol = loose(dtype, 1e-9);
  cn_tensor *a = regular(2, n, dtype), *ga = there(a), *out[6];
  cn_tensor *b = random_of(dtype, 1, n, 3), *rows = random_of(dtype, 2, 5, n), *vectors = cn_select(turned(rows), 2, 0);
  close_to("solve", cn_linalg_solve(a, b), cn_linalg_solve(ga, there(b)), tol);
  close_to("solve from the right", cn_linalg_solve(a, rows, .no_left = true),
           cn_linalg_solve(ga, there(rows), .no_left = true), tol);
  close_to("solve for vectors", cn_linalg_solve(a, vectors), cn_linalg_solve(ga, there(vectors)), tol);
  close_to("inv", cn_linalg_inv(a), cn_linalg_inv(ga), tol);
  close_to("inv of turned ones", cn_linalg_inv(turned(a)), cn_linalg_inv(turned(ga)), tol);
  cn_tensor *near_one = cn_div(a, cn_num(3));
  close_to("det", cn_linalg_det(near_one), cn_linalg_det(there(near_one)), loose(dtype, 1e-9) * 10);
  for (int form = 0; form < 8; form++) {
    bool upper = form & 1, right = form & 2, unit = form & 4;
    cn_tensor *given = right ? rows : b;
    close_to("solve_triangular",
             cn_linalg_solve_triangular(unit ? near_one : a, cn_div(given, cn_num(9)), upper, .no_left = right,
                                        .unitriangular = unit),
             cn_linalg_solve_triangular(there(unit ? near_one : a), there(cn_div(given, cn_num(9))), upper,
                                        .no_left = right, .unitriangular = unit),
             tol);
  }
  cn_linalg_lu_factor_ex(&out[0], &out[1], &out[2], a);
  cn_linalg_lu_factor_ex(&out[3], &out[4], &out[5], ga);
  close_to("LU", out[0], out[3], tol);
  close_to("pivots", out[1], out[4], 0);
  close_to("info", out[2], out[5], 0);
}

static inline void check_cholesky(int64_t n, cn_dtype dtype)
{
  double tol = loose(dtype, 1e-9);
  cn_tensor *a = regular(2, n, dtype), *square = cn_matmul(a, turned(a)), *out[4];
  close_to("cholesky", cn_linalg_cholesky(square), cn_linalg_cholesky(there(square)), tol);
  close_to("cholesky, upper", cn_linalg_cholesky(square, .upper = true),
           cn_linalg_cholesky(there(square), .upper = true), tol);
  cn_linalg_cholesky_ex(&out[0], &out[1], square);
  cn_linalg_cholesky_ex(&out[2], &out[3], there(square));
  close_to("cholesky_ex", out[0], out[2], tol);
  close_to("info of cholesky_ex", out[1], out[3], 0);
}

/* x: (..., m, n) has orthonormal columns. */
static inline void orthonormal(const char *what, cn_tensor *x, double tol)
{
  cn_tensor *square = cn_matmul(turned(x), x);
  close_to(what, cn_expand_as(cn_eye(cn_size(x, -1), CN_NONE, .dtype = cn_dtype_of(x)), cn_to_device(square, CN_CPU)),
           square, tol);
}

static inline void check_qr(int64_t m, int64_t n, cn_dtype dtype)
{
  static const char *const modes[] = {"reduced", "complete", "r"};
  double tol = loose(dtype, 1e-9);
  cn_tensor *a = random_of(dtype, 2, m, n), *q, *r, *gq, *gr;
  for (int i = 0; i < 3; i++) {
    cn_linalg_qr(&q, &r, a, .mode = modes[i]);
    cn_linalg_qr(&gq, &gr, there(a), .mode = modes[i]);
    close_to("R", r, gr, tol * 10);
    if (i == 2) continue;
    orthonormal("Q", gq, tol);
    close_to("Q R", a, cn_matmul(gq, gr), tol);
  }
}

static inline void check_svd(int64_t m, int64_t n, cn_dtype dtype)
{
  double tol = loose(dtype, 1e-9);
  int64_t k = m < n ? m : n;
  cn_tensor *a = random_of(dtype, 2, m, n), *ga = there(a), *u, *s, *v, *gu, *gs, *gv;
  for (int full = 0; full < 2; full++) {
    cn_linalg_svd(&u, &s, &v, a, .no_full_matrices = !full);
    cn_linalg_svd(&gu, &gs, &gv, ga, .no_full_matrices = !full);
    close_to("singular values", s, gs, tol * 10);
    orthonormal("U", gu, tol);
    orthonormal("V", turned(gv), tol);
    cn_tensor *u1 = cn_narrow(gu, -1, 0, k), *v1 = cn_narrow(gv, -2, 0, k);
    close_to("U S Vh", a, cn_matmul(cn_mul(u1, cn_unsqueeze(gs, -2)), v1), tol * 10);
    if (dtype == CN_F64) close_to("left vectors", cn_narrow(u, -1, 0, k), u1, 1e-5); /* signs too */
  }
  close_to("svdvals", cn_linalg_svdvals(a), cn_linalg_svdvals(ga), tol * 10);
}

static inline void check_eigh(int64_t n, cn_dtype dtype)
{
  double tol = loose(dtype, 1e-9);
  cn_tensor *a = random_of(dtype, 2, n, n), *l, *q, *gl, *gq; /* one triangle counts */
  for (int upper = 0; upper < 2; upper++) {
    const char *part = upper ? "U" : "L";
    cn_tensor *half = upper ? cn_triu(a, .diagonal = 1) : cn_tril(a, .diagonal = -1);
    cn_tensor *whole = cn_add(cn_add(half, turned(half)), cn_mul(a, cn_eye(n, CN_NONE, .dtype = dtype)));
    cn_linalg_eigh(&l, &q, a, .UPLO = part);
    cn_linalg_eigh(&gl, &gq, there(a), .UPLO = part);
    close_to("eigenvalues", l, gl, tol * 10);
    close_to("eigvalsh", l, cn_linalg_eigvalsh(there(a), .UPLO = part), tol * 10);
    orthonormal("eigenvectors", gq, tol);
    close_to("Q L Q^T", whole, cn_matmul(cn_mul(gq, cn_unsqueeze(gl, -2)), turned(gq)), tol * 10);
    if (dtype == CN_F64) close_to("eigenvectors", q, gq, 1e-5); /* signs too */
  }
}

/* Two equal columns, zeros, and nothing but one number: what has no unique vectors still has orthonormal ones. */
static inline void check_special(int64_t n)
{
  cn_tensor *zeros = cn_zeros(CN_SHAPE(n, n), .dtype = CN_F64), *ones = cn_ones(CN_SHAPE(n, n), .dtype = CN_F64);
  cn_tensor *special[] = {zeros, ones, cn_eye(n, CN_NONE, .dtype = CN_F64), cn_neg(ones)}, *u, *s, *v;
  for (int i = 0; i < 4; i++) {
    cn_linalg_svd(&u, &s, &v, there(special[i]));
    if (cn_err() || cn_device_sync(gpu)) fail_msg("special matrix %d of %d: %s", i, (int)n, cn_err_message());
    orthonormal("U of a special matrix", u, 1e-10);
    orthonormal("V of a special matrix", turned(v), 1e-10);
    close_to("a special matrix by its parts", special[i], cn_matmul(cn_mul(u, cn_unsqueeze(s, -2)), v), 1e-9);
    cn_linalg_eigh(&s, &u, there(special[i]));
    if (cn_err() || cn_device_sync(gpu)) fail_msg("special matrix %d of %d: %s", i, (int)n, cn_err_message());
    orthonormal("eigenvectors of a special matrix", u, 1e-10);
    close_to("a special matrix by its eigenvectors", special[i],
             cn_matmul(cn_mul(u, cn_unsqueeze(s, -2)), turned(u)), 1e-9);
  }
  cn_tensor *a = cn_div(cn_randn(CN_SHAPE(2, n, n), .dtype = CN_F64), cn_num(sqrt((double)n) / 4));
  close_to("matrix_exp", cn_linalg_matrix_exp(a), cn_linalg_matrix_exp(there(a)), 1e-9);
}

/* The error comes at the call or at the next wait; then the device works on. */
static inline void raises(const char *op, const char *words)
{
  int now = cn_err(), status = now ? now : cn_device_sync(gpu);
  assert_int_equal(status, CN_ERR_VALUE);
  if (!strstr(cn_err_message(), op) || !strstr(cn_err_message(), words)) fail_msg("%s: %s", op, cn_err_message());
  cn_err_clear();
  assert_int_equal(cn_device_sync(gpu), 0);
}

static inline void check_failures(int64_t n)
{
  cn_tensor *zeros = there(cn_zeros(CN_SHAPE(n, n))), *out[3];
  cn_tensor *bad = there(cn_full(CN_SHAPE(2, n, n), NAN)), *one_bad = cn_stack(CN_TENSORS(cn_eye(n, CN_NONE),
                                                                                         cn_zeros(CN_SHAPE(n, n))));
  assert_int_equal(cn_device_sync(gpu), 0);
  (void)cn_linalg_solve(zeros, zeros);
  raises("linalg_solve", "singular (zero on the diagonal of U at 1)");
  (void)cn_linalg_inv(there(one_bad));
  raises("linalg_inv", "batch element 1: the input matrix is singular");
  (void)cn_linalg_cholesky(cn_neg(there(cn_eye(n, CN_NONE))));
  raises("linalg_cholesky", "leading minor of order 1");
  cn_linalg_lu_factor(&out[0], &out[1], zeros);
  raises("linalg_lu_factor", "exactly singular");
  cn_linalg_svd(&out[0], &out[1], &out[2], bad);
  raises("linalg_svd", "failed to converge");
  cn_linalg_eigh(&out[0], &out[1], bad);
  raises("linalg_eigh", "failed to converge");
  cn_linalg_inv_ex(&out[0], &out[1], there(one_bad));
  close_to("info of a singular matrix", cn_from_data((int32_t[]){0, 1}, CN_SHAPE(2), CN_I32), out[1], 0);
  assert_true(isnan(cn_item(cn_select(cn_flatten(cn_to_device(out[0], CN_CPU)), 0, -1))));
  assert_int_equal(cn_device_sync(gpu), 0);
}

#endif
