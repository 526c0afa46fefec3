"""`osmosis train tinker` against a service made of the official SDK's types.

    python tinker_types.py

Each request is read by the SDK's type of its route, which refuses unknown fields and must write the same again; answers are
written by the SDK's types. Six trainings use every loss on both wires, and one of them continues.
Real: the pydantic types and protobuf messages of the package `tinker`. Stand-in: the model, which says codes at random.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

import numpy as np
from tinker import types
from tinker.proto import tinker_public_pb2 as public
from tinker.proto.request_conv import forward_backward_request_to_proto
from tinker.proto.response_conv import _tensor_data_from_proto, deserialize_forward_backward_output, deserialize_sample_response
from tinker.types._pydantic_types import forward_backward_input, save_weights_for_sampler_response, tensor_data
from tinker.types.future_retrieve_request import FutureRetrieveRequest
from tinker.types.session_heartbeat_request import SessionHeartbeatRequest
from tinker.types.session_heartbeat_response import SessionHeartbeatResponse
from tinker.types.try_again_response import TryAgainResponse
from transformers import AutoTokenizer

import harness
from tinker_services import Training, workspace

PROTOBUF = "application/x-protobuf"
REQUESTS = {
    "create_session": types.CreateSessionRequest,
    "session_heartbeat": SessionHeartbeatRequest,
    "get_info": types.GetInfoRequest,
    "retrieve_future": FutureRetrieveRequest,
    "create_model": types.CreateModelRequest,
    "asample": types.SampleRequest,
    "optim_step": types.OptimStepRequest,
    "save_weights": types.SaveWeightsRequest,
    "save_weights_for_sampler": types.SaveWeightsForSamplerRequest,
    "load_weights": types.LoadWeightsRequest,
    "unload_model": types.UnloadModelRequest,
}


def same(kind, body):
    """The body as the SDK's type, which writes the same again."""
    read = kind.model_validate(body)
    if (again := read.model_dump(mode="json", exclude_unset=True)) != body:
        raise ValueError(f"{kind.__name__} writes {again}, and {body} was sent")
    return read


class Service:
    def __init__(self, folder):
        self.folder, self.tokens = str(folder), AutoTokenizer.from_pretrained(folder)
        self.seen, self.problems, self.futures = Counter(), [], {}

    def answer(self, route, body, wants):
        """Bytes and their type; body is bytes where the request is protobuf."""
        self.seen[route] += 1
        if route == "forward_backward":
            return self.future(route, self.trained(body))
        request = same(REQUESTS[route], body)
        if route == "retrieve_future":
            return self.result(request.request_id, wants)
        if route == "create_session":
            return types.CreateSessionResponse(session_id="session")
        if route == "session_heartbeat":
            return SessionHeartbeatResponse()
        if route == "get_info":
            return types.GetInfoResponse(model_data=types.ModelData(tokenizer_id=self.folder), model_id=request.model_id)
        return self.future(route, self.made(route, request))

    def made(self, route, request):
        if route == "create_model":
            return types.CreateModelResponse(model_id="model")
        if route == "asample":
            if self.seen[route] == 1:
                return types.RequestFailedResponse(error="busy", category=types.RequestErrorCategory.Server)
            return self.tokens.encode("".join(random.choices("ab", k=2)) + "<|im_end|>", add_special_tokens=False)
        if route == "optim_step":
            return types.OptimStepResponse()
        if route == "save_weights":
            return types.SaveWeightsResponse(path=f"tinker://model/weights/{request.path}")
        if route == "save_weights_for_sampler":
            at = {"path": f"tinker://model/sampler_weights/{request.path}"} if request.path else {"sampling_session_id": "sampler"}
            return save_weights_for_sampler_response.SaveWeightsForSamplerResponseInternal(**at)
        return types.LoadWeightsResponse(path=request.path) if route == "load_weights" else types.UnloadModelResponse(model_id="model")

    def future(self, route, result):
        identity = str(len(self.futures))
        self.futures[identity] = route, result
        return types.UntypedAPIFuture(request_id=identity)

    def result(self, identity, wants):
        route, result = self.futures[identity]
        # A model takes until the first heartbeat.
        if route == "create_model" and not self.seen["session_heartbeat"]:
            return TryAgainResponse(request_id=identity, queue_state="active")
        if not isinstance(result, list):
            return result
        self.seen[f"{route} as {wants}"] += 1
        if route == "asample":
            logprobs = [-1.0] * len(result)
            if wants != PROTOBUF:
                return {"sequences": [{"stop_reason": "stop", "tokens": result, "logprobs": logprobs}]}
            raw = {"tokens": np.int32(result).tobytes(), "logprobs": np.float32(logprobs).tobytes()}
            sent = public.SampleResponse(sequences=[public.SampledSequence(stop_reason=public.STOP_REASON_STOP, **raw)])
            assert deserialize_sample_response(sent.SerializeToString()).sequences[0].tokens == result
            return sent
        if wants != PROTOBUF:
            tensors = [tensor_data.TensorData(data=one, dtype="float32", shape=[len(one)]).model_dump() for one in result]
            return {"loss_fn_output_type": "ArrayRecord", "loss_fn_outputs": [{"logprobs": one} for one in tensors], "metrics": {}}
        ends = np.cumsum([0, *(4 * len(one) for one in result)])
        batch = public.BatchedTensor(data=np.float32(sum(result, [])).tobytes(), offsets=np.int64(ends).tobytes(), dtype=public.DTYPE_FLOAT32)
        record = public.ArrayRecord(num_datums=len(result), fields={"logprobs": batch})
        sent = public.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord", loss_fn_outputs=[record])
        read = deserialize_forward_backward_output(sent.SerializeToString()).loss_fn_outputs
        assert [one["logprobs"].tolist() for one in read] == [np.float32(one).tolist() for one in result]
        return sent

    def trained(self, body):
        """The logprobs that were recorded, which differ by nothing."""
        if isinstance(body, bytes):
            sent = public.ForwardBackwardRequest.FromString(body)
            data = [
                types.Datum(
                    types.ModelInput.from_ints(np.frombuffer(one.model_input[0].encoded_text.tokens, np.int32).tolist()),
                    {name: _tensor_data_from_proto(tensor) for name, tensor in one.loss_fn_inputs.items()},
                )
                for one in sent.data
            ]
            found = types.ForwardBackwardInput(data, sent.loss_fn, dict(sent.loss_fn_config) or None)
            again = forward_backward_request_to_proto(types.ForwardBackwardRequest(found, sent.model_id, sent.seq_id))
            again.ClearField("loss_fn_config_v2")
            if again != sent:
                raise ValueError(f"the SDK writes {again}, and {sent} was sent")
        else:
            if body.keys() != {"model_id", "seq_id", "forward_backward_input", "type"}:
                raise ValueError(f"fields {sorted(body)}")
            found = same(forward_backward_input.ForwardBackwardInput, body["forward_backward_input"])
        self.seen[f"{found.loss_fn} as {PROTOBUF if isinstance(body, bytes) else 'application/json'}"] += 1
        outputs = []
        for datum in found.data:
            ids, inputs = datum.model_input.to_ints(), {name: list(one.tolist()) for name, one in datum.loss_fn_inputs.items()}
            if ids[1:] != inputs["target_tokens"][:-1] or {len(one) for one in inputs.values()} != {len(ids)}:
                raise ValueError(f"targets of {ids}: {inputs}")
            outputs.append(inputs.get("logprobs", [-1.0] * len(ids)))
        return outputs

    def serve(service):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                route, content = self.path.removeprefix("/api/v1/"), self.rfile.read(int(self.headers["content-length"]))
                body = content if self.headers["content-type"] == PROTOBUF else json.loads(content)
                kind, status = "application/json", 200
                try:
                    made = service.answer(route, body, self.headers["accept"])
                except Exception as error:
                    service.problems.append(f"{route}: {error!r}")
                    made, status = {"detail": "see the output of the script"}, 422
                if isinstance(made, dict):
                    sent = json.dumps(made).encode()
                elif hasattr(made, "model_dump_json"):
                    sent = made.model_dump_json().encode()
                else:
                    kind, sent = PROTOBUF, made.SerializeToString()
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tinker-types-"))
    program = harness.ROOT / "packages/create/templates/examples/doors/make_tiny_model.py"
    subprocess.run([sys.executable, program, folder / "model"], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    service = Service(folder / "model")
    args = ["--url", service.serve(), "--model", "base", "--steps", "2", "--warm-start", "0.5"]
    ended = {}
    for wire in ("json", "protobuf"):
        for loss in ("dapo", "cispo", "gspo"):
            doors = workspace(folder / f"{wire}-{loss}")
            config = doors / "configs/training/doors.toml"
            config.write_text(config.read_text().replace("[secrets]", f'loss = "{loss}"\n\n[secrets]'))
            training = Training(doors, *args, "--wire", wire)
            if (wire, loss) == ("json", "dapo") and training.until(r"^step +1 "):
                training.process.send_signal(signal.SIGINT)
                training.ended()
                training = Training(doors, *args, "--wire", wire)
            ended[f"{wire}, {loss}"] = training.ended()
    print(f"tinker {version('tinker')}:", *(f"{name} {count}," for name, count in sorted(service.seen.items())))
    print(*sorted(set(service.problems))[:20], sep="\n")
    losses = [f"{loss} as {kind}" for loss in ("cross_entropy", "ppo", "cispo", "gspo") for kind in ("application/json", PROTOBUF)]
    return harness.verdict(
        {
            "each request is what the SDK's type of it writes, and each answer can be read": not service.problems,
            "each route was used": REQUESTS.keys() <= service.seen.keys(),
            "each loss was sent, on both wires": set(losses) <= service.seen.keys(),
            "each training ended": set(ended.values()) == {0},
        }
    )


if __name__ == "__main__":
    sys.exit(main())
