"""What fusion-lsp-server says of a file: diagnostics, or the hover text at a place.

    lsp.py SERVER FILE.mlir [LINE COLUMN]
"""
import json
import pathlib
import subprocess
import sys


def main(server, path, *place):
    uri = pathlib.Path(path).resolve().as_uri()
    requests = [("initialize", 0, {"processId": None, "rootUri": None, "capabilities": {}}),
                ("textDocument/didOpen", None, {"textDocument": {"uri": uri, "languageId": "mlir", "version": 1, "text": pathlib.Path(path).read_text()}})]
    if place:
        line, column = map(int, place)
        requests.append(("textDocument/hover", 1, {"textDocument": {"uri": uri}, "position": {"line": line - 1, "character": column}}))
    requests += [("shutdown", 2, None), ("exit", None, None)]
    sent = b""
    for method, number, params in requests:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if number is None else {"id": number})}
        body = json.dumps(message).encode()
        sent += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    answers = subprocess.run([server], input=sent, capture_output=True, check=True, timeout=60).stdout
    while answers:
        head, _, rest = answers.partition(b"\r\n\r\n")
        length = int(head.split(b":")[1])
        answer, answers = json.loads(rest[:length]), rest[length:]
        if answer.get("method") == "textDocument/publishDiagnostics":
            print("diagnostics:", [d["message"] for d in answer["params"]["diagnostics"]])
        if answer.get("id") == 1:
            print("hover:", answer["result"]["contents"]["value"])


main(*sys.argv[1:])
