"""The names of torch.distributed and the modules below it, as PyTorch 2.15 has them.

Place in the flow: __init__.py makes them. Invariant: names that begin with a capital are classes."""
from __future__ import annotations

__all__ = ["BELOW", "TOP"]

TOP = (
    "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions Backend BackendConfig BarrierOptions "
    "BroadcastOptions BuiltinCommHookType DebugLevel DeviceMesh FileStore GatherOptions GradBucket "
    "GroupName HashStore Logger P2POp PrefixStore ProcessGroup ProcessGroupGloo ProcessGroupNCCL "
    "ProcessGroupNCCL2 ProcessGroupNCCLLazy ReduceOptions ReduceScatterOptions Reducer ScatterOptions "
    "Store TCPStore Work _all_gather_base _broadcast_coalesced _get_default_group _reduce_scatter_base "
    "all_gather all_gather_coalesced all_gather_into_tensor all_gather_object all_gather_single "
    "all_reduce all_reduce_coalesced all_to_all all_to_all_single barrier batch_isend_irecv broadcast "
    "broadcast_object_list destroy_process_group gather gather_into_tensor gather_object gather_single "
    "get_backend get_backend_config get_backend_impl get_debug_level get_default_backend_for_device "
    "get_global_rank get_group_rank get_node_local_rank get_pg_count get_process_group_ranks get_rank "
    "get_world_size init_device_mesh init_process_group irecv isend monitored_barrier new_group "
    "new_subgroups new_subgroups_by_enumeration record_comm recv recv_object_list reduce reduce_scatter "
    "reduce_scatter_single reduce_scatter_tensor register_rendezvous_handler rendezvous scatter "
    "scatter_object_list send send_object_list set_debug_level set_debug_level_from_env set_timeout "
    "shrink_group split_group supports_complex")

BELOW = {
    "_composable": "",
    "_composable.fsdp": "FSDPModule fully_shard",
    "_composable.fsdp.fully_shard": "",
    "_composable.replicate": "DDP replicate",
    "_composable_state": "",
    "_functional_collectives":
        "AsyncCollectiveTensor all_gather_inplace all_gather_into_tensor_backward "
        "all_gather_into_tensor_coalesced all_gather_into_tensor_coalesced_backward "
        "all_gather_into_tensor_coalesced_setup_context all_gather_into_tensor_setup_context "
        "all_gather_single all_gather_single_autograd all_gather_single_coalesced all_gather_tensor "
        "all_gather_tensor_autograd all_gather_tensor_inplace all_reduce all_reduce_backward "
        "all_reduce_coalesced all_reduce_coalesced_backward all_reduce_coalesced_setup_context "
        "all_reduce_inplace all_reduce_setup_context all_to_all_inplace all_to_all_single "
        "all_to_all_single_autograd all_to_all_single_backward all_to_all_single_setup_context "
        "allow_inflight_collective_as_graph_input_ctx batch_p2p_ops_inplace broadcast irecv_inplace "
        "isend_inplace permute_tensor reduce_scatter_inplace reduce_scatter_single "
        "reduce_scatter_single_autograd reduce_scatter_single_coalesced reduce_scatter_tensor "
        "reduce_scatter_tensor_autograd reduce_scatter_tensor_backward reduce_scatter_tensor_coalesced "
        "reduce_scatter_tensor_coalesced_backward reduce_scatter_tensor_coalesced_setup_context "
        "reduce_scatter_tensor_inplace reduce_scatter_tensor_setup_context wait_tensor wait_tensor_backward "
        "wait_tensors wait_tensors_backward",
    "_shard": "",
    "_shard.sharded_tensor":
        "custom_sharded_op_impl empty full init_from_local_shards ones pre_load_state_dict_hook rand randn "
        "state_dict_hook zeros",
    "_shard.sharding_spec": "",
    "_state_dict_utils": "CompanionMismatch",
    "_tensor": "DTensor",
    "_tensor.api": "",
    "_tensor.device_mesh": "DeviceMesh init_device_mesh",
    "_tensor.experimental": "context_parallel implicit_replication local_map register_sharding",
    "_tensor.placement_types": "",
    "_tools": "",
    "algorithms": "",
    "algorithms._checkpoint.checkpoint_wrapper":
        "ActivationWrapper CheckpointImpl CheckpointWrapper OffloadWrapper apply_activation_checkpointing "
        "checkpoint_wrapper offload_wrapper",
    "algorithms.ddp_comm_hooks": "DDPCommHookType register_ddp_comm_hook",
    "algorithms.ddp_comm_hooks.debugging_hooks": "noop_hook",
    "algorithms.ddp_comm_hooks.default_hooks":
        "allreduce_hook bf16_compress_hook bf16_compress_wrapper fp16_compress_hook fp16_compress_wrapper",
    "algorithms.ddp_comm_hooks.optimizer_overlap_hooks": "",
    "algorithms.ddp_comm_hooks.post_localSGD_hook": "PostLocalSGDState post_localSGD_hook",
    "algorithms.ddp_comm_hooks.powerSGD_hook": "PowerSGDState batched_powerSGD_hook powerSGD_hook",
    "algorithms.ddp_comm_hooks.quantization_hooks": "quantization_perchannel_hook quantization_pertensor_hook",
    "algorithms.join": "Join JoinHook Joinable",
    "algorithms.model_averaging.averagers": "ModelAverager PeriodicModelAverager",
    "algorithms.model_averaging.hierarchical_model_averager": "HierarchicalModelAverager",
    "algorithms.model_averaging.utils":
        "average_parameters average_parameters_or_parameter_groups get_params_to_average",
    "autograd": "context is_available",
    "c10d_logger": "",
    "checkpoint": "FileSystemReader FileSystemWriter load load_state_dict save save_state_dict",
    "checkpoint._consolidate_hf_safetensors":
        "consolidate_safetensors_files consolidate_safetensors_files_on_every_rank",
    "checkpoint.api": "CheckpointException",
    "checkpoint.default_planner":
        "DefaultLoadPlanner DefaultSavePlanner create_default_global_load_plan "
        "create_default_global_save_plan create_default_local_load_plan create_default_local_save_plan",
    "checkpoint.filesystem": "FileSystem FileSystemBase FileSystemReader FileSystemWriter SerializationFormat",
    "checkpoint.format_utils":
        "BroadcastingTorchSaveReader DynamicMetaLoadPlanner _EmptyStateDictLoadPlanner dcp_to_torch_save "
        "torch_save_to_dcp",
    "checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "checkpoint.metadata":
        "BytesStorageMetadata ChunkStorageMetadata Metadata MetadataIndex StorageMeta TensorProperties "
        "TensorStorageMetadata",
    "checkpoint.optimizer": "load_sharded_optimizer_state_dict",
    "checkpoint.planner":
        "BytesIOWriteData LoadItemType LoadPlan LoadPlanner ReadItem SavePlan SavePlanner TensorWriteData "
        "WriteItem WriteItemType",
    "checkpoint.staging": "AsyncStager BlockingAsyncStager DefaultStager StagingOptions",
    "checkpoint.state_dict":
        "DictValueType FQNS_T ListDictValueType OptimizerStateType StateDictOptions get_model_state_dict "
        "get_optimizer_state_dict get_state_dict set_model_state_dict set_optimizer_state_dict set_state_dict",
    "checkpoint.state_dict_loader": "_load_state_dict load load_state_dict",
    "checkpoint.state_dict_saver": "AsyncCheckpointerType AsyncSaveResponse async_save save save_state_dict",
    "checkpoint.stateful": "Stateful",
    "checkpoint.storage": "StorageReader StorageWriter WriteResult",
    "checkpoint.utils": "find_state_dict_object find_tensor_shard",
    "constants": "default_pg_timeout",
    "device_mesh": "DeviceMesh init_device_mesh",
    "distributed_c10d":
        "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions Backend BackendConfig BarrierOptions "
        "BroadcastOptions DebugLevel GatherOptions GroupMember GroupName P2POp PrefixStore ProcessGroup "
        "ProcessGroupGloo ProcessGroupNCCL ProcessGroupNCCL2 ProcessGroupNCCLLazy ReduceOp ReduceOptions "
        "ReduceScatterOptions ScatterOptions Store Work _get_default_group all_gather all_gather_coalesced "
        "all_gather_into_tensor all_gather_object all_gather_single all_reduce all_reduce_coalesced "
        "all_to_all all_to_all_single barrier batch_isend_irecv broadcast broadcast_object_list "
        "destroy_process_group gather gather_into_tensor gather_object gather_single get_backend "
        "get_backend_config get_backend_impl get_debug_level get_default_backend_for_device get_global_rank "
        "get_group_rank get_node_local_rank get_pg_count get_process_group_ranks get_rank get_world_size "
        "group init_process_group irecv is_backend_available is_gloo_available is_initialized "
        "is_mpi_available is_nccl_available is_torchelastic_launched is_ucc_available is_xccl_available isend "
        "monitored_barrier new_group new_subgroups new_subgroups_by_enumeration record_comm recv "
        "recv_object_list reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor scatter "
        "scatter_object_list send send_object_list set_timeout shrink_group split_group supports_complex",
    "elastic": "",
    "elastic.agent.server": "",
    "elastic.agent.server.api": "ElasticAgent RunResult SimpleElasticAgent Worker WorkerGroup WorkerSpec WorkerState",
    "elastic.events": "construct_and_record_rdzv_event record record_rdzv_event",
    "elastic.metrics": "initialize_metrics",
    "elastic.multiprocessing":
        "DefaultLogsSpecs LogsDest LogsSpecs MultiprocessContext PContext ProcessFailure RunProcsResult "
        "SignalException Std SubprocessContext start_processes to_map",
    "elastic.multiprocessing.api":
        "DefaultLogsSpecs LogsDest LogsSpecs MultiprocessContext PContext RunProcsResult SignalException Std "
        "SubprocessContext get_std_cm to_map",
    "elastic.multiprocessing.errors": "ChildFailedError ErrorHandler ProcessFailure get_error_handler record",
    "elastic.rendezvous":
        "RendezvousClosedError RendezvousConnectionError RendezvousError RendezvousGracefulExitError "
        "RendezvousHandler RendezvousHandlerCreator RendezvousHandlerRegistry RendezvousInfo "
        "RendezvousParameters RendezvousStateError RendezvousStoreInfo RendezvousTimeoutError",
    "elastic.rendezvous.api":
        "RendezvousClosedError RendezvousConnectionError RendezvousError RendezvousGracefulExitError "
        "RendezvousHandler RendezvousHandlerCreator RendezvousHandlerRegistry RendezvousInfo "
        "RendezvousParameters RendezvousStateError RendezvousStoreInfo RendezvousTimeoutError",
    "elastic.rendezvous.c10d_rendezvous_backend": "C10dRendezvousBackend create_backend",
    "elastic.timer": "",
    "elastic.utils": "",
    "elastic.utils.logging": "get_logger",
    "fsdp":
        "BackwardPrefetch CPUOffload CPUOffloadPolicy DataParallelMeshDims FSDPModule "
        "FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel GradientReductionHandle "
        "LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision MixedPrecisionPolicy OffloadPolicy "
        "OptimStateDictConfig OptimStateKeyType ShardedOptimStateDictConfig ShardedStateDictConfig "
        "ShardingStrategy StateDictConfig StateDictSettings StateDictType UnshardHandle fully_shard "
        "register_fsdp_forward_method share_comm_ctx",
    "fsdp._common_utils":
        "HandleTrainingState TrainingState clean_tensor_name collect_grad_tensors replace_grad_tensors",
    "fsdp._flat_param":
        "FlatParamHandle FlatParamShardMetadata FlatParameter HandleShardingStrategy ParamInfo "
        "SharedParamInfo",
    "fsdp._fully_shard":
        "CPUOffloadPolicy DataParallelMeshDims FSDPModule GradientReductionHandle MixedPrecisionPolicy "
        "OffloadPolicy UnshardHandle fully_shard register_fsdp_forward_method share_comm_ctx",
    "fsdp._runtime_utils": "",
    "fsdp._traversal_utils": "",
    "fsdp._unshard_param_utils": "",
    "fsdp.api":
        "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig LocalOptimStateDictConfig "
        "LocalStateDictConfig MixedPrecision OptimStateDictConfig ShardedOptimStateDictConfig "
        "ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings StateDictType",
    "fsdp.fully_sharded_data_parallel":
        "CPUOffload FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel MixedPrecision "
        "OptimStateKeyType ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictType",
    "fsdp.sharded_grad_scaler": "ShardedGradScaler",
    "fsdp.wrap":
        "CustomPolicy ModuleWrapPolicy always_wrap_policy enable_wrap lambda_auto_wrap_policy "
        "size_based_auto_wrap_policy transformer_auto_wrap_policy wrap",
    "launch": "launch main parse_args",
    "launcher": "",
    "launcher.api": "LaunchConfig elastic_launch launch_agent",
    "logging_handlers": "",
    "nn": "",
    "nn.api": "",
    "nn.api.remote_module": "RemoteModule",
    "nn.functional":
        "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter scatter",
    "nn.jit": "",
    "optim": "DistributedOptimizer PostLocalSGDOptimizer ZeroRedundancyOptimizer as_functional_optim",
    "optim.apply_optimizer_in_backward": "",
    "optim.optimizer": "DistributedOptimizer",
    "optim.post_localSGD_optimizer": "PostLocalSGDOptimizer",
    "optim.utils": "as_functional_optim register_functional_optim",
    "optim.zero_redundancy_optimizer": "ZeroRedundancyOptimizer",
    "pipelining":
        "Pipe PipelineActivationLiveness PipelineStage PipelineStageInfo Schedule1F1B ScheduleDualPipeV "
        "ScheduleGPipe ScheduleInterleaved1F1B ScheduleInterleavedZeroBubble ScheduleLoopedBFS "
        "ScheduleZBVZeroBubble SplitPoint analyze_pipeline_activation_liveness build_stage pipe_split "
        "pipeline",
    "pipelining.microbatch": "TensorChunkSpec merge_chunks split_args_kwargs_into_chunks",
    "pipelining.schedules":
        "PipelineActivationLiveness PipelineScheduleMulti PipelineScheduleSingle Schedule1F1B "
        "ScheduleDualPipeV ScheduleGPipe ScheduleInterleaved1F1B ScheduleInterleavedZeroBubble "
        "ScheduleLoopedBFS ScheduleZBVZeroBubble analyze_pipeline_activation_liveness get_schedule_class",
    "pipelining.stage": "PipelineStage PipelineStageInfo build_stage",
    "remote_device": "",
    "rendezvous": "register_rendezvous_handler rendezvous",
    "rpc":
        "AllGatherStates BackendType RRef TensorPipeRpcBackendOptions get_worker_info init_rpc is_available "
        "method_factory new_method remote rpc_async rpc_sync shutdown",
    "rpc.api": "AllGatherStates RRef get_worker_info method_factory new_method remote rpc_async rpc_sync shutdown",
    "rpc.functions": "async_execution",
    "rpc.internal": "PythonUDF RPCExecMode RemoteException deserialize serialize",
    "rpc.options": "TensorPipeRpcBackendOptions",
    "run":
        "config_from_args determine_local_world_size get_args_parser get_rdzv_endpoint get_use_env main "
        "parse_args parse_min_max_nnodes run run_script_path",
    "tensor":
        "DTensor Partial Placement Replicate Shard distribute_module distribute_tensor empty full linspace "
        "logspace ones rand randn zeros",
    "tensor._api": "DTensor distribute_module distribute_tensor empty full linspace logspace ones rand randn zeros",
    "tensor._dtensor_spec": "DTensorSpec ShardOrderEntry TensorMeta",
    "tensor._ops": "",
    "tensor._utils":
        "ExplicitRedistributionContext assert_no_mixed_partial_types compute_global_tensor_shape "
        "compute_local_shape_and_global_offset compute_local_stride compute_local_tensor_info "
        "normalize_to_torch_size try_find_mesh_from_args",
    "tensor.debug": "CommDebugMode visualize_sharding",
    "tensor.device_mesh": "DeviceMesh init_device_mesh",
    "tensor.experimental": "context_parallel implicit_replication local_map register_sharding",
    "tensor.experimental._attention":
        "_CausalBehavior _ContextParallel _HeadTailLoadBalancer _LoadBalancer _PTRRLoadBalancer "
        "_PerDocumentHeadTailLoadBalancer _RotateMethod _context_parallel_shard "
        "_disable_context_parallel_dispatcher _enable_context_parallel_dispatcher _is_causal_behavior "
        "_templated_ring_attention context_parallel context_parallel_unshard set_rotate_method",
    "tensor.parallel":
        "ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput "
        "RowwiseParallel SequenceParallel loss_parallel parallelize_module",
    "tensor.parallel.api": "parallelize_module",
    "tensor.parallel.fsdp": "DTensorExtensions",
    "tensor.parallel.loss": "loss_parallel",
    "tensor.parallel.style":
        "ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput "
        "RowwiseParallel SequenceParallel",
    "tensor.placement_types": "Partial Placement Replicate Shard _StridedShard",
    "utils": "_sync_module_states",
}
