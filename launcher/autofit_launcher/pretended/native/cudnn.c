// libcudnn: its graph interface finds one engine for every graph. PRETENDED_CUDNN_SHARE: its workspace, as a part of the graph's tensors;
// cuDNN's own choice can't be known without a card.
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OK CUDNN_STATUS_SUCCESS
#define ENGINECFG_WORKSPACE_SIZE 303 // CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, which headers before cuDNN 9.2 do not have

typedef struct {
  int type;
  int64_t bytes; // of its tensors
} Descriptor;

static int64_t width(int type) {
  switch (type) {
  case CUDNN_DATA_HALF:
  case CUDNN_DATA_BFLOAT16: return 2;
  case CUDNN_DATA_DOUBLE:
  case CUDNN_DATA_INT64: return 8;
  case CUDNN_DATA_INT8:
  case CUDNN_DATA_BOOLEAN: return 1;
  default: return 4;
  }
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out) {
  Descriptor *made = calloc(1, sizeof *made);
  made->type = type, made->bytes = 1;
  *out = (void *)made;
  return OK;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t one) {
  free(one);
  return OK;
}
static int carries_bytes(const Descriptor *one) {
  return one && (one->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR || one->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR ||
                 one->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR || one->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                       int64_t count, const void *values) {
  Descriptor *one = (Descriptor *)of;
  if (one->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    if (name == CUDNN_ATTR_TENSOR_DIMENSIONS)
      for (int i = 0; i < count; i++)
        one->bytes *= ((const int64_t *)values)[i];
    if (name == CUDNN_ATTR_TENSOR_DATA_TYPE)
      one->bytes *= width(*(const int *)values);
  } else if (one->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && name == CUDNN_ATTR_OPERATIONGRAPH_OPS) {
    one->bytes = 0;
    for (int i = 0; i < count; i++)
      one->bytes += ((Descriptor *const *)values)[i]->bytes;
  } else if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && count >= 1 && carries_bytes(*(Descriptor *const *)values))
    one->bytes += (*(Descriptor *const *)values)->bytes;
  return OK;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t one) { return OK; }

static int64_t workspace(const Descriptor *of) {
  const char *share = getenv("PRETENDED_CUDNN_SHARE");
  return share ? (int64_t)(atof(share) * (double)of->bytes) : 0;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const of, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most, int64_t *count, void *values) {
  Descriptor *one = (Descriptor *)of;
  int64_t found = 1;
  switch (name) {
  case CUDNN_ATTR_ENGINEHEUR_RESULTS:
  case CUDNN_ATTR_ENGINECFG_ENGINE:
    if (values && most)
      (*(Descriptor **)values)->bytes = one->bytes;
    break;
  case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
  case ENGINECFG_WORKSPACE_SIZE:
    if (values)
      *(int64_t *)values = workspace(one);
    break;
  case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
    if (values)
      *(int64_t *)values = 0;
    break;
  case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
    if (values)
      *(int64_t *)values = 1;
    break;
  default: found = 0;
  }
  if (count)
    *count = found;
  return OK;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) { return OK; }

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) { return (*handle = calloc(1, 64)) ? OK : CUDNN_STATUS_ALLOC_FAILED; }
size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
size_t cudnnGetCudartVersion(void) { return CUDART_VERSION; }
cudnnStatus_t cudnnGetProperty(libraryPropertyType which, int *value) {
  *value = which == MAJOR_VERSION ? CUDNN_MAJOR : which == MINOR_VERSION ? CUDNN_MINOR : CUDNN_PATCHLEVEL;
  return OK;
}
const char *cudnnGetErrorString(cudnnStatus_t status) { return "not played"; }
void cudnnGetLastErrorString(char *words, size_t most) {
  if (most)
    *words = 0;
}
#define MADE(name)                                                                                                                         \
  cudnnStatus_t cudnnCreate##name(cudnn##name##_t *out) { return (*out = calloc(1, 256)) ? OK : CUDNN_STATUS_ALLOC_FAILED; }
MADE(ActivationDescriptor)
MADE(CTCLossDescriptor)
MADE(ConvolutionDescriptor)
MADE(DropoutDescriptor)
MADE(FilterDescriptor)
MADE(PoolingDescriptor)
MADE(RNNDataDescriptor)
MADE(RNNDescriptor)
MADE(SpatialTransformerDescriptor)
MADE(TensorDescriptor)

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                                                                       cudnnBatchNormOps_t ops, const cudnnTensorDescriptor_t x,
                                                                       const cudnnTensorDescriptor_t z, const cudnnTensorDescriptor_t y,
                                                                       const cudnnTensorDescriptor_t scale,
                                                                       const cudnnActivationDescriptor_t activation, size_t *bytes) {
  *bytes = 0;
  return OK;
}
cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops,
                                                                const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t y,
                                                                const cudnnTensorDescriptor_t dy, const cudnnTensorDescriptor_t dz,
                                                                const cudnnTensorDescriptor_t dx, const cudnnTensorDescriptor_t scale,
                                                                const cudnnActivationDescriptor_t activation, size_t *bytes) {
  *bytes = 0;
  return OK;
}
cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops,
                                                                   const cudnnActivationDescriptor_t activation,
                                                                   const cudnnTensorDescriptor_t x, size_t *bytes) {
  *bytes = 0;
  return OK;
}
// Recurrent layers and dropout: sizes that let a program go on; cuDNN's own aren't known.
cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t *bytes) {
  *bytes = 1 << 20;
  return OK;
}
cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t layer, cudnnForwardMode_t mode,
                                        cudnnRNNDataDescriptor_t x, size_t *work, size_t *reserve) {
  if (work)
    *work = 1 << 20;
  if (reserve)
    *reserve = 1 << 20;
  return OK;
}
cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t layer, size_t *bytes) {
  *bytes = 1 << 20;
  return OK;
}
