"""A mutating webhook of somebody else: it adds a sidecar of its own, as meshes do, once and before everything else."""

import base64
import http.server
import json
import ssl

WAIT = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); signal.pause()"


def sidecar(image):
    return {
        "name": "second",
        "image": image,
        "restartPolicy": "Always",
        "command": ["python3", "-c", WAIT],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 1337,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "second", "mountPath": "/run/second"}],
    }


def prepended(path, present, item):
    """Puts `item` before what is in the list at `path`, which may not be there yet."""
    if present:
        return {"op": "add", "path": f"{path}/0", "value": item}
    return {"op": "add", "path": path, "value": [item]}


def patch(pod):
    spec = pod["spec"]
    others = spec.get("initContainers", [])
    if any(container["name"] == "second" for container in others):
        return []
    image = spec["containers"][-1]["image"]
    return [
        prepended("/spec/initContainers", others, sidecar(image)),
        prepended("/spec/volumes", spec.get("volumes"), {"name": "second", "emptyDir": {}}),
    ]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        operations = base64.b64encode(json.dumps(patch(request["object"])).encode()).decode()
        response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": operations}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/program/certificate.pem", "/program/key.pem")
server = http.server.ThreadingHTTPServer(("", 8443), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print("serving", flush=True)
server.serve_forever()
