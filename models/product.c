/* product.c - compiled products for the solvers of autodiff/, which know no backends. */
#include "models/models.h"

static int64_t elements(const sg_shape *shape) { return shape ? sg_shape_count(shape) : 0; }

static bool apply(void *user, const double *v, double *out, sg_error *err)
{
    const sg_plan_product *p = user;
    return sg_plan_feed(p->plan, p->in, v, elements(sg_plan_input_shape(p->plan, p->in)), err) == SG_OK &&
           sg_plan_run(p->plan, err) == SG_OK &&
           sg_plan_fetch(p->plan, p->out, out, elements(sg_plan_result_shape(p->plan, p->out)), err) == SG_OK;
}

sg_linear_map sg_plan_map(sg_plan_product *product)
{
    return (sg_linear_map){apply, product, elements(sg_plan_input_shape(product->plan, product->in)),
                           elements(sg_plan_result_shape(product->plan, product->out))};
}
