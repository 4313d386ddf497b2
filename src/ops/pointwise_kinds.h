/* pointwise_kinds.h: what follows from the kind of a line of pointwise.def: whether there are loops for floats and for
 * integers (FLOATS_kind and INTS_kind become USE or SKIP, which the includer defines), and the flags of the op.
 *
 * Place in the flow: included where pointwise.def is turned into loops or rows. Invariant: the same kinds as the enum
 * in program.h, less those that only programs have. */
#ifndef CNI_OPS_POINTWISE_KINDS_H
#define CNI_OPS_POINTWISE_KINDS_H

#define FLOATS_FLT USE
#define FLOATS_FUN USE
#define FLOATS_SLW USE
#define FLOATS_NUM USE
#define FLOATS_INT USE
#define FLOATS_SGN USE
#define FLOATS_QUO USE
#define FLOATS_CMP USE
#define FLOATS_LOG USE
#define FLOATS_FIT USE
#define FLOATS_BIT SKIP

#define INTS_FLT SKIP
#define INTS_FUN SKIP
#define INTS_SLW SKIP
#define INTS_NUM USE
#define INTS_INT USE
#define INTS_SGN USE
#define INTS_QUO USE
#define INTS_CMP USE
#define INTS_LOG USE
#define INTS_FIT USE
#define INTS_BIT USE

#define FLAGS_FLT 0
#define FLAGS_FUN 0
#define FLAGS_SLW 0
#define FLAGS_NUM 0
#define FLAGS_INT 0
#define FLAGS_SGN 0
#define FLAGS_QUO 0
#define FLAGS_CMP CN_OP_NO_GRAD
#define FLAGS_LOG CN_OP_NO_GRAD
#define FLAGS_FIT CN_OP_NO_GRAD
#define FLAGS_BIT CN_OP_NO_GRAD

#endif
