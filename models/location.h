/* location.h - the functions of models.h that add to a model's graph, each as a macro that calls it with the caller's file and
 * line. A whole step (sg_step_build and its like) is a model of its own: what it builds has the lines of seal_step.c.
 * Included by models.h. */
#ifndef SG_MODELS_LOCATION_H
#define SG_MODELS_LOCATION_H

#define sg_feature_mlp(...) SG_AT(sg_feature_mlp, __VA_ARGS__)
#define sg_mlc_task(...) SG_AT(sg_mlc_task, __VA_ARGS__)
#define sg_mlc_score(...) SG_AT(sg_mlc_score, __VA_ARGS__)
#define sg_bert_encoder(...) SG_AT(sg_bert_encoder, __VA_ARGS__)
#define sg_bert_pooler(...) SG_AT(sg_bert_pooler, __VA_ARGS__)
#define sg_bert_embeddings(...) SG_AT(sg_bert_embeddings, __VA_ARGS__)
#define sg_bert_layers(...) SG_AT(sg_bert_layers, __VA_ARGS__)
#define sg_bert_attention(...) SG_AT(sg_bert_attention, __VA_ARGS__)
#define sg_log_bernoulli(...) SG_AT(sg_log_bernoulli, __VA_ARGS__)
#define sg_nce_ranking_loss(...) SG_AT(sg_nce_ranking_loss, __VA_ARGS__)
#define sg_adam_step(...) SG_AT_VOID(sg_adam_step, __VA_ARGS__)

#endif
