/* offsets.c: compares src/backends/pjrt/api.h with the vendor's pjrt_c_api.h: where each field of ours is in its
 * struct, and how large those are. Compiled and run by tests/pjrt/test_header.py. */
#include <stdio.h>

#include <pjrt_c_api.h>

#include "../../../src/backends/pjrt/api.h"

static int compared, different;

static void compare(const char *what, size_t ours, size_t theirs)
{
  compared++;
  if (ours == theirs) return;
  different++;
  printf("%s: %zu, but %zu in the vendor's header\n", what, ours, theirs);
}

/* Ours, then theirs. */
#define FIELD(a, x, b, y) compare(#a "." #x, offsetof(a, x), offsetof(b, y));
#define SIZE(a, b) compare(#a, sizeof(a), sizeof(b));
#define CALL(x, y) FIELD(pjrt_api, x, PJRT_Api, y)

static void table(void)
{
  FIELD(pjrt_api, version.major, PJRT_Api, pjrt_api_version.major_version)
  FIELD(pjrt_api, version.minor, PJRT_Api, pjrt_api_version.minor_version)
  CALL(error_destroy, PJRT_Error_Destroy)
  CALL(error_message, PJRT_Error_Message)
  CALL(error_code, PJRT_Error_GetCode)
  CALL(plugin_initialize, PJRT_Plugin_Initialize)
  CALL(event_destroy, PJRT_Event_Destroy)
  CALL(event_is_ready, PJRT_Event_IsReady)
  CALL(event_await, PJRT_Event_Await)
  CALL(client_create, PJRT_Client_Create)
  CALL(client_destroy, PJRT_Client_Destroy)
  CALL(client_platform_name, PJRT_Client_PlatformName)
  CALL(client_platform_version, PJRT_Client_PlatformVersion)
  CALL(client_devices, PJRT_Client_AddressableDevices)
  CALL(client_compile, PJRT_Client_Compile)
  CALL(client_upload, PJRT_Client_BufferFromHostBuffer)
  CALL(description_id, PJRT_DeviceDescription_Id)
  CALL(description_kind, PJRT_DeviceDescription_Kind)
  CALL(device_description, PJRT_Device_GetDescription)
  CALL(device_memory, PJRT_Device_MemoryStats)
  CALL(executable_destroy, PJRT_Executable_Destroy)
  CALL(executable_outputs, PJRT_Executable_NumOutputs)
  CALL(executable_serialize, PJRT_Executable_Serialize)
  CALL(loaded_destroy, PJRT_LoadedExecutable_Destroy)
  CALL(loaded_executable, PJRT_LoadedExecutable_GetExecutable)
  CALL(loaded_execute, PJRT_LoadedExecutable_Execute)
  CALL(load, PJRT_Executable_DeserializeAndLoad)
  CALL(buffer_destroy, PJRT_Buffer_Destroy)
  CALL(buffer_download, PJRT_Buffer_ToHostBuffer)
  CALL(buffer_ready, PJRT_Buffer_ReadyEvent)
  CALL(topology_create, PJRT_TopologyDescription_Create)
  CALL(topology_destroy, PJRT_TopologyDescription_Destroy)
  CALL(compile, PJRT_Compile)
  CALL(executable_costs, PJRT_Executable_GetCostAnalysis)
  CALL(executable_memory, PJRT_Executable_GetCompiledMemoryStats)
}

static void small_structs(void)
{
  FIELD(pjrt_error_destroy, error, PJRT_Error_Destroy_Args, error)
  FIELD(pjrt_error_message, error, PJRT_Error_Message_Args, error)
  FIELD(pjrt_error_message, text, PJRT_Error_Message_Args, message)
  FIELD(pjrt_error_message, text_size, PJRT_Error_Message_Args, message_size)
  FIELD(pjrt_error_code, code, PJRT_Error_GetCode_Args, code)
  SIZE(pjrt_plugin_initialize, PJRT_Plugin_Initialize_Args)
  FIELD(pjrt_event_destroy, event, PJRT_Event_Destroy_Args, event)
  FIELD(pjrt_event_is_ready, ready, PJRT_Event_IsReady_Args, is_ready)
  FIELD(pjrt_event_await, event, PJRT_Event_Await_Args, event)
  FIELD(pjrt_client_destroy, client, PJRT_Client_Destroy_Args, client)
  FIELD(pjrt_client_platform, text, PJRT_Client_PlatformName_Args, platform_name)
  FIELD(pjrt_client_platform, text_size, PJRT_Client_PlatformVersion_Args, platform_version_size)
  FIELD(pjrt_client_devices, devices, PJRT_Client_AddressableDevices_Args, addressable_devices)
  FIELD(pjrt_client_devices, ndevices, PJRT_Client_AddressableDevices_Args, num_addressable_devices)
  FIELD(pjrt_description_id, id, PJRT_DeviceDescription_Id_Args, id)
  FIELD(pjrt_description_kind, text, PJRT_DeviceDescription_Kind_Args, device_kind)
  FIELD(pjrt_device_description, description, PJRT_Device_GetDescription_Args, device_description)
  FIELD(pjrt_executable_destroy, executable, PJRT_Executable_Destroy_Args, executable)
  FIELD(pjrt_executable_outputs, count, PJRT_Executable_NumOutputs_Args, num_outputs)
  FIELD(pjrt_loaded_destroy, loaded, PJRT_LoadedExecutable_Destroy_Args, executable)
  FIELD(pjrt_loaded_executable, executable, PJRT_LoadedExecutable_GetExecutable_Args, executable)
  FIELD(pjrt_buffer_destroy, buffer, PJRT_Buffer_Destroy_Args, buffer)
  FIELD(pjrt_buffer_ready, event, PJRT_Buffer_ReadyEvent_Args, event)
  FIELD(pjrt_topology_create, name_size, PJRT_TopologyDescription_Create_Args, topology_name_size)
  FIELD(pjrt_topology_create, topology, PJRT_TopologyDescription_Create_Args, topology)
  FIELD(pjrt_topology_destroy, topology, PJRT_TopologyDescription_Destroy_Args, topology)
}

static void large_structs(void)
{
  FIELD(pjrt_named, name, PJRT_NamedValue, name)
  FIELD(pjrt_named, type, PJRT_NamedValue, type)
  FIELD(pjrt_named, u, PJRT_NamedValue, string_value)
  FIELD(pjrt_named, value_size, PJRT_NamedValue, value_size)
  SIZE(pjrt_named, PJRT_NamedValue)
  FIELD(pjrt_program, code, PJRT_Program, code)
  FIELD(pjrt_program, format, PJRT_Program, format)
  SIZE(pjrt_program, PJRT_Program)
  FIELD(pjrt_client_create, options, PJRT_Client_Create_Args, create_options)
  FIELD(pjrt_client_create, client, PJRT_Client_Create_Args, client)
  SIZE(pjrt_client_create, PJRT_Client_Create_Args)
  FIELD(pjrt_client_compile, program, PJRT_Client_Compile_Args, program)
  FIELD(pjrt_client_compile, options, PJRT_Client_Compile_Args, compile_options)
  FIELD(pjrt_client_compile, loaded, PJRT_Client_Compile_Args, executable)
  SIZE(pjrt_client_compile, PJRT_Client_Compile_Args)
  FIELD(pjrt_client_upload, data, PJRT_Client_BufferFromHostBuffer_Args, data)
  FIELD(pjrt_client_upload, type, PJRT_Client_BufferFromHostBuffer_Args, type)
  FIELD(pjrt_client_upload, dims, PJRT_Client_BufferFromHostBuffer_Args, dims)
  FIELD(pjrt_client_upload, keep, PJRT_Client_BufferFromHostBuffer_Args, host_buffer_semantics)
  FIELD(pjrt_client_upload, device, PJRT_Client_BufferFromHostBuffer_Args, device)
  FIELD(pjrt_client_upload, done, PJRT_Client_BufferFromHostBuffer_Args, done_with_host_buffer)
  FIELD(pjrt_client_upload, buffer, PJRT_Client_BufferFromHostBuffer_Args, buffer)
  SIZE(pjrt_client_upload, PJRT_Client_BufferFromHostBuffer_Args)
  FIELD(pjrt_device_memory, in_use, PJRT_Device_MemoryStats_Args, bytes_in_use)
  FIELD(pjrt_device_memory, limit, PJRT_Device_MemoryStats_Args, bytes_limit)
  FIELD(pjrt_device_memory, has_limit, PJRT_Device_MemoryStats_Args, bytes_limit_is_set)
  SIZE(pjrt_device_memory, PJRT_Device_MemoryStats_Args)
  FIELD(pjrt_executable_serialize, bytes, PJRT_Executable_Serialize_Args, serialized_bytes)
  FIELD(pjrt_executable_serialize, owner, PJRT_Executable_Serialize_Args, serialized_executable)
  FIELD(pjrt_executable_serialize, release, PJRT_Executable_Serialize_Args, serialized_executable_deleter)
  SIZE(pjrt_executable_serialize, PJRT_Executable_Serialize_Args)
  FIELD(pjrt_execute_options, launch, PJRT_ExecuteOptions, launch_id)
  FIELD(pjrt_execute_options, kept, PJRT_ExecuteOptions, non_donatable_input_indices)
  FIELD(pjrt_execute_options, nkept, PJRT_ExecuteOptions, num_non_donatable_input_indices)
  SIZE(pjrt_execute_options, PJRT_ExecuteOptions)
  FIELD(pjrt_loaded_execute, options, PJRT_LoadedExecutable_Execute_Args, options)
  FIELD(pjrt_loaded_execute, arguments, PJRT_LoadedExecutable_Execute_Args, argument_lists)
  FIELD(pjrt_loaded_execute, narguments, PJRT_LoadedExecutable_Execute_Args, num_args)
  FIELD(pjrt_loaded_execute, results, PJRT_LoadedExecutable_Execute_Args, output_lists)
  FIELD(pjrt_loaded_execute, done, PJRT_LoadedExecutable_Execute_Args, device_complete_events)
  FIELD(pjrt_loaded_execute, device, PJRT_LoadedExecutable_Execute_Args, execute_device)
  SIZE(pjrt_loaded_execute, PJRT_LoadedExecutable_Execute_Args)
  FIELD(pjrt_load, bytes, PJRT_Executable_DeserializeAndLoad_Args, serialized_executable)
  FIELD(pjrt_load, loaded, PJRT_Executable_DeserializeAndLoad_Args, loaded_executable)
  SIZE(pjrt_load, PJRT_Executable_DeserializeAndLoad_Args)
  FIELD(pjrt_buffer_download, buffer, PJRT_Buffer_ToHostBuffer_Args, src)
  FIELD(pjrt_buffer_download, to, PJRT_Buffer_ToHostBuffer_Args, dst)
  FIELD(pjrt_buffer_download, done, PJRT_Buffer_ToHostBuffer_Args, event)
  SIZE(pjrt_buffer_download, PJRT_Buffer_ToHostBuffer_Args)
  FIELD(pjrt_executable_costs, nproperties, PJRT_Executable_GetCostAnalysis_Args, num_properties)
  FIELD(pjrt_executable_costs, properties, PJRT_Executable_GetCostAnalysis_Args, properties)
  FIELD(pjrt_executable_memory, code, PJRT_Executable_GetCompiledMemoryStats_Args, generated_code_size_in_bytes)
  FIELD(pjrt_executable_memory, arguments, PJRT_Executable_GetCompiledMemoryStats_Args, argument_size_in_bytes)
  FIELD(pjrt_executable_memory, results, PJRT_Executable_GetCompiledMemoryStats_Args, output_size_in_bytes)
  FIELD(pjrt_executable_memory, shared, PJRT_Executable_GetCompiledMemoryStats_Args, alias_size_in_bytes)
  FIELD(pjrt_executable_memory, temporary, PJRT_Executable_GetCompiledMemoryStats_Args, temp_size_in_bytes)
  FIELD(pjrt_executable_memory, host, PJRT_Executable_GetCompiledMemoryStats_Args, host_generated_code_size_in_bytes)
  FIELD(pjrt_executable_memory, peak, PJRT_Executable_GetCompiledMemoryStats_Args, peak_memory_in_bytes)
  FIELD(pjrt_compile, program, PJRT_Compile_Args, program)
  FIELD(pjrt_compile, options, PJRT_Compile_Args, compile_options)
  FIELD(pjrt_compile, executable, PJRT_Compile_Args, executable)
  SIZE(pjrt_compile, PJRT_Compile_Args)
}

static void numbers(void)
{
  compare("PJRT_PRED", PJRT_PRED, PJRT_Buffer_Type_PRED);
  compare("PJRT_S64", PJRT_S64, PJRT_Buffer_Type_S64);
  compare("PJRT_U64", PJRT_U64, PJRT_Buffer_Type_U64);
  compare("PJRT_F64", PJRT_F64, PJRT_Buffer_Type_F64);
  compare("PJRT_BF16", PJRT_BF16, PJRT_Buffer_Type_BF16);
  compare("PJRT_F8E4M3FN", PJRT_F8E4M3FN, PJRT_Buffer_Type_F8E4M3FN);
  compare("PJRT_UNTIL_TRANSFERRED", PJRT_UNTIL_TRANSFERRED, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
  compare("PJRT_BOOL", PJRT_BOOL, PJRT_NamedValue_kBool);
  compare("PJRT_EXHAUSTED", PJRT_EXHAUSTED, PJRT_Error_Code_RESOURCE_EXHAUSTED);
  compare("PJRT_UNIMPLEMENTED", PJRT_UNIMPLEMENTED, PJRT_Error_Code_UNIMPLEMENTED);
}

int main(void)
{
  table();
  small_structs();
  large_structs();
  numbers();
  printf("version 0.%d: %d places compared, %d different\n", PJRT_API_MINOR, compared, different);
  return different != 0;
}
