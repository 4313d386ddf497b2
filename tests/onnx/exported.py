"""Models that the driver "onnx" of test_ops wrote (tests/ops/onnx.c): read, given to onnx's checker with full shape
inference, run by onnxruntime, and compared with what cairn gave."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stablehlo"))
from cases import close, read  # noqa: E402 (the same form, and the same comparison)


def ort_value(ort, array):
    """What onnxruntime takes: types that numpy has not as their bits."""
    from onnx.helper import np_dtype_to_tensor_dtype
    if array.dtype.kind != "V" and array.dtype.name not in ("bfloat16",) and "float8" not in array.dtype.name \
            and "float4" not in array.dtype.name:
        return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    bits = np.ascontiguousarray(array).view("u%d" % array.dtype.itemsize).reshape(array.shape)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, np_dtype_to_tensor_dtype(array.dtype))


def with_plain_outputs(model):
    """Outputs of types that numpy has not as float32."""
    from onnx import TensorProto, helper
    odd = {getattr(TensorProto, name) for name in dir(TensorProto) if name.startswith(("BFLOAT16", "FLOAT8", "FLOAT4"))}
    for output in model.graph.output:
        if output.type.tensor_type.elem_type in odd:
            name = output.name
            output.name = name + "_as_float32"
            output.type.tensor_type.elem_type = TensorProto.FLOAT
            model.graph.node.append(helper.make_node("Cast", [name], [output.name], to=TensorProto.FLOAT))
    return model


def plain(array):
    odd = array.dtype.kind not in "biufc" or array.dtype.name.startswith(("bfloat", "float8", "float4"))
    return array.astype(np.float32) if odd else array


def wrong_with(case, onnx, ort):
    """"" or what is wrong."""
    model = onnx.load_from_string(case.program)
    onnx.checker.check_model(model, full_check=True)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    data = with_plain_outputs(model).SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    given = {i.name: ort_value(ort, a) for i, a in zip(session.get_inputs(), case.inputs)}
    made = session.run_with_ort_values([o.name for o in session.get_outputs()], given)
    for k, (value, want, random, tolerance) in enumerate(zip(made, case.wanted, case.random, case.tolerances)):
        have, want = value.numpy(), plain(want)
        if random and have.dtype == want.dtype and have.shape == want.shape:
            continue
        why = close(have, want, tolerance)
        if why:
            return f"result {k}: {why}"
    return ""


def check(cases):
    """What is wrong with each: a list of (sample, why)."""
    import onnx
    import onnxruntime as ort
    ort.set_default_logger_severity(4)
    wrong = []
    for case in cases:
        try:
            why = wrong_with(case, onnx, ort)
        except Exception as error:  # noqa: BLE001 (whatever the checker and the runtime object to)
            why = str(error).replace("\n", " ")[:400]
        if why:
            wrong.append((case.sample, why))
    return wrong


def main(folder):
    for name in sorted(os.listdir(folder)):
        cases = read(os.path.join(folder, name))
        wrong = check(cases)
        for sample, why in wrong:
            print(f"{name[:-6]}: {sample}\n    {why}")
        print(f"{name[:-6]}: {len(cases)} cases, {len(wrong)} wrong", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
