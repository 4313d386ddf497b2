"""The names of torch.ao and the modules below it, as PyTorch 2.15 has them.

Place in the flow: __init__.py makes them. Invariant: names that begin with a capital are classes."""
from __future__ import annotations

__all__ = ["BELOW"]

BELOW = {
    "nn": "",
    "nn.intrinsic":
        "BNReLU2d BNReLU3d ConvAdd2d ConvAddReLU2d ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d "
        "ConvBnReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearBn1d LinearLeakyReLU LinearReLU LinearTanh",
    "nn.intrinsic.qat":
        "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU1d ConvReLU2d ConvReLU3d "
        "LinearBn1d LinearReLU freeze_bn_stats update_bn_stats",
    "nn.intrinsic.quantized":
        "BNReLU2d BNReLU3d ConvAdd2d ConvAddReLU2d ConvReLU1d ConvReLU2d ConvReLU3d LinearLeakyReLU "
        "LinearReLU LinearTanh",
    "nn.qat": "Conv1d Conv2d Conv3d Embedding EmbeddingBag Linear",
    "nn.quantizable": "LSTM LSTMCell MultiheadAttention",
    "nn.quantized":
        "BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d "
        "DeQuantize Dropout ELU Embedding EmbeddingBag FXFloatFunctional FloatFunctional GroupNorm Hardswish "
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LSTM LayerNorm LeakyReLU Linear MultiheadAttention "
        "PReLU QFunctional Quantize ReLU6 Sigmoid Softmax",
    "nn.quantized.dynamic":
        "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d GRU GRUCell LSTM LSTMCell "
        "Linear RNNCell",
    "nn.quantized.functional":
        "adaptive_avg_pool2d adaptive_avg_pool3d avg_pool2d avg_pool3d celu clamp conv1d conv2d conv3d elu "
        "hardsigmoid hardswish hardtanh interpolate leaky_relu linear max_pool1d max_pool2d threshold "
        "upsample upsample_bilinear upsample_nearest",
    "nn.quantized.modules":
        "BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d "
        "DeQuantize Dropout ELU Embedding EmbeddingBag FXFloatFunctional FloatFunctional GroupNorm Hardswish "
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LSTM LayerNorm LeakyReLU Linear MultiheadAttention "
        "PReLU QFunctional Quantize ReLU6 Sigmoid Softmax",
    "nn.quantized.reference":
        "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding EmbeddingBag GRU "
        "GRUCell LSTM LSTMCell Linear RNNCell",
    "nn.sparse": "",
    "quantization":
        "AffineQuantizedObserverBase DeQuantStub FakeQuantize FakeQuantizeBase FixedQParamsFakeQuantize "
        "FixedQParamsObserver FusedMovingAvgObsFakeQuantize Granularity HistogramObserver MappingType "
        "MinMaxObserver MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver NoopObserver "
        "ObserverBase ObserverOrFakeQuantize PerAxis PerBlock PerChannelMinMaxObserver PerGroup PerRow "
        "PerTensor PerToken PlaceholderObserver QConfig QConfigAny QConfigDynamic QConfigMapping QuantStub "
        "QuantType QuantWrapper RecordingObserver ReuseInputObserver TorchAODType "
        "UniformQuantizationObserverBase ZeroPointDomain add_quant_dequant convert convert_dynamic_jit "
        "convert_jit default_affine_fixed_qparams_fake_quant default_affine_fixed_qparams_observer "
        "default_debug_observer default_dynamic_fake_quant default_dynamic_quant_observer "
        "default_embedding_fake_quant default_embedding_fake_quant_4bit default_eval_fn default_fake_quant "
        "default_fixed_qparams_range_0to1_fake_quant default_fixed_qparams_range_0to1_observer "
        "default_fixed_qparams_range_neg1to1_fake_quant default_fixed_qparams_range_neg1to1_observer "
        "default_float_qparams_observer default_float_qparams_observer_4bit default_fused_act_fake_quant "
        "default_fused_per_channel_wt_fake_quant default_fused_wt_fake_quant default_histogram_fake_quant "
        "default_histogram_observer default_observer default_per_channel_weight_fake_quant "
        "default_per_channel_weight_observer default_placeholder_observer default_reuse_input_observer "
        "default_symmetric_fixed_qparams_fake_quant default_symmetric_fixed_qparams_observer "
        "default_weight_fake_quant default_weight_observer disable_fake_quant disable_observer "
        "enable_fake_quant enable_observer fuse_conv_bn fuse_conv_bn_jit fuse_conv_bn_relu "
        "fuse_convtranspose_bn fuse_linear_bn fuse_modules fuse_modules_qat "
        "fused_per_channel_wt_fake_quant_range_neg_127_to_127 fused_wt_fake_quant_range_neg_127_to_127 "
        "get_block_size get_default_compare_output_module_list get_default_custom_config_dict "
        "get_default_dynamic_quant_module_mappings get_default_dynamic_sparse_quant_module_mappings "
        "get_default_float_to_quantized_operator_mappings get_default_qat_module_mappings "
        "get_default_qat_qconfig get_default_qat_qconfig_dict get_default_qat_qconfig_mapping "
        "get_default_qconfig get_default_qconfig_dict get_default_qconfig_mapping "
        "get_default_qconfig_propagation_list get_default_static_quant_module_mappings "
        "get_default_static_quant_reference_module_mappings get_default_static_sparse_quant_module_mappings "
        "get_dynamic_quant_module_class get_embedding_qat_module_mappings "
        "get_embedding_static_quant_module_mappings get_fuser_method get_fuser_method_new "
        "get_observer_state_dict get_quantized_operator get_static_quant_module_class "
        "load_observer_state_dict no_observer_set per_channel_weight_observer_range_neg_127_to_127 prepare "
        "prepare_dynamic_jit prepare_jit prepare_qat propagate_qconfig_ qconfig_equals quantize "
        "quantize_dynamic quantize_dynamic_jit quantize_jit quantize_qat script_qconfig script_qconfig_dict "
        "swap_module weight_observer_range_neg_127_to_127",
    "quantization.fake_quantize":
        "FakeQuantize FakeQuantizeBase FixedQParamsFakeQuantize FusedMovingAvgObsFakeQuantize "
        "default_affine_fixed_qparams_fake_quant default_dynamic_fake_quant default_embedding_fake_quant "
        "default_embedding_fake_quant_4bit default_fake_quant default_fixed_qparams_range_0to1_fake_quant "
        "default_fixed_qparams_range_neg1to1_fake_quant default_fused_act_fake_quant "
        "default_fused_per_channel_wt_fake_quant default_fused_wt_fake_quant default_histogram_fake_quant "
        "default_per_channel_weight_fake_quant default_symmetric_fixed_qparams_fake_quant "
        "default_weight_fake_quant disable_fake_quant disable_observer enable_fake_quant enable_observer "
        "fused_per_channel_wt_fake_quant_range_neg_127_to_127 fused_wt_fake_quant_range_neg_127_to_127",
    "quantization.fuse_modules": "fuse_known_modules fuse_modules fuse_modules_qat",
    "quantization.fx": "convert fuse prepare",
    "quantization.fx._decomposed":
        "FakeQuantPerChannel choose_qparams_per_token choose_qparams_per_token_asymmetric "
        "choose_qparams_per_token_asymmetric_meta choose_qparams_per_token_meta "
        "choose_qparams_symmetric_tensor choose_qparams_symmetric_tensor_meta choose_qparams_tensor "
        "choose_qparams_tensor_meta convert_element_type convert_element_type_meta dequantize_per_channel "
        "dequantize_per_channel_group dequantize_per_channel_meta dequantize_per_tensor "
        "dequantize_per_tensor_meta dequantize_per_tensor_tensor dequantize_per_tensor_tensor2 "
        "dequantize_per_tensor_tensor2_meta dequantize_per_tensor_tensor_meta dequantize_per_token "
        "dequantize_per_token_meta determine_qparams fake_quant_per_channel fake_quant_per_channel_meta "
        "quantize_per_channel quantize_per_channel_group quantize_per_channel_group_meta "
        "quantize_per_channel_meta quantize_per_tensor quantize_per_tensor_meta quantize_per_tensor_tensor "
        "quantize_per_tensor_tensor2 quantize_per_tensor_tensor2_meta quantize_per_tensor_tensor_meta "
        "quantize_per_token quantize_per_token_meta validate_qmin_qmax",
    "quantization.fx.graph_module":
        "FusedGraphModule ObservedGraphModule ObservedStandaloneGraphModule QuantizedGraphModule",
    "quantization.observer":
        "AffineQuantizedObserverBase FixedQParamsObserver Granularity HistogramObserver MappingType "
        "MinMaxObserver MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver NoopObserver "
        "ObserverBase PerAxis PerBlock PerChannelMinMaxObserver PerGroup PerRow PerTensor PerToken "
        "PlaceholderObserver RecordingObserver ReuseInputObserver TorchAODType "
        "UniformQuantizationObserverBase ZeroPointDomain default_affine_fixed_qparams_observer "
        "default_debug_observer default_dynamic_quant_observer default_fixed_qparams_range_0to1_observer "
        "default_fixed_qparams_range_neg1to1_observer default_float_qparams_observer "
        "default_float_qparams_observer_4bit default_histogram_observer default_observer "
        "default_per_channel_weight_observer default_placeholder_observer default_reuse_input_observer "
        "default_symmetric_fixed_qparams_observer default_weight_observer get_block_size "
        "get_observer_state_dict load_observer_state_dict per_channel_weight_observer_range_neg_127_to_127 "
        "weight_observer_range_neg_127_to_127",
    "quantization.qconfig":
        "QConfig QConfigAny QConfigDynamic get_default_qat_qconfig get_default_qat_qconfig_dict "
        "get_default_qconfig get_default_qconfig_dict qconfig_equals",
    "quantization.qconfig_mapping": "QConfigMapping get_default_qat_qconfig_mapping get_default_qconfig_mapping",
    "quantization.quant_type": "QuantType",
    "quantization.quantize":
        "add_quant_dequant convert get_default_custom_config_dict prepare prepare_qat propagate_qconfig_ "
        "quantize quantize_dynamic quantize_qat swap_module",
    "quantization.quantize_fx":
        "BackendConfig ConvertCustomConfig FuseCustomConfig ObservedGraphModule PrepareCustomConfig "
        "QConfigMapping QuantizationTracer ScopeContextManager attach_preserved_attrs_to_model convert "
        "convert_fx convert_to_reference_fx fuse fuse_fx get_custom_module_class_keys "
        "get_skipped_module_name_and_classes get_tensorrt_backend_config prepare prepare_fx prepare_qat_fx",
    "quantization.quantize_jit":
        "convert_dynamic_jit convert_jit fuse_conv_bn_jit prepare_dynamic_jit prepare_jit "
        "quantize_dynamic_jit quantize_jit script_qconfig script_qconfig_dict",
    "quantization.backend_config":
        "BackendConfig BackendPatternConfig DTypeConfig DTypeWithConstraints ObservationType "
        "get_executorch_backend_config get_fbgemm_backend_config get_native_backend_config "
        "get_native_backend_config_dict get_onednn_backend_config get_qnnpack_backend_config "
        "get_tensorrt_backend_config get_tensorrt_backend_config_dict",
    "quantization.stubs": "DeQuantStub QuantStub QuantWrapper",
    "quantization.utils":
        "MatchAllNode NodePattern Pattern activation_dtype activation_is_dynamically_quantized "
        "activation_is_int32_quantized activation_is_int8_quantized activation_is_statically_quantized "
        "calculate_qmin_qmax check_min_max_valid check_node determine_qparams get_combined_dict "
        "get_fqn_to_example_inputs get_qconfig_dtypes get_qparam_dict get_quant_type "
        "get_swapped_custom_module_class getattr_from_fqn has_no_children_ignoring_parametrizations "
        "is_per_channel is_per_tensor op_is_int8_dynamically_quantized to_underlying_dtype validate_qmin_qmax "
        "weight_dtype weight_is_quantized weight_is_statically_quantized",
    "pruning":
        "BaseScheduler BaseSparsifier CubicSL FakeSparsity LambdaSL NearlyDiagonalSparsifier "
        "WeightNormSparsifier fqn_to_module get_arg_info_from_tensor_fqn get_dynamic_sparse_quantized_mapping "
        "get_static_sparse_quantized_mapping module_to_fqn",
    "ns": "",
}
