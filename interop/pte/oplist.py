"""oplist.py FILE... : one line of JSON a file: {operator: [kernel keys]} as ExecuTorch's gen_oplist makes them, by the C++ of the wheel in $ETWHEEL. Needs
the Python that the wheel's extension was built for (3.11)."""
import glob, importlib.util, json, os, sys

path, = glob.glob(os.environ['ETWHEEL'] + '/executorch/codegen/tools/selective_build.*.so')
spec = importlib.util.spec_from_file_location('selective_build', path)
sb = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sb)
TENSOR, TENSOR_LIST, OPTIONAL_TENSOR_LIST = 5, 10, 11
for name in sys.argv[1:]:
    data = open(name, 'rb').read()  # kept: the program that the C++ returns points into it
    p = sb._get_program_from_buffer(data)
    keys = {o: set() for o in sb._get_program_operators(p)}
    for o, calls in sb._get_io_metadata_for_program_operators(p).items():
        for c in calls:
            keys[o].add(('v1/' + '|'.join(f"{x.dtype};{','.join(map(str, x.dim_order))}" for x in c if x.kernel_type in (TENSOR, TENSOR_LIST, OPTIONAL_TENSOR_LIST))).rstrip('/'))
    print(json.dumps({'file': name, 'kernels': {o: sorted(k) for o, k in sorted(keys.items())}}))
