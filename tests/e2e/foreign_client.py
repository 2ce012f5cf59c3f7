"""A client that knows only the .proto files: plain grpcio with stock options does everything a trainer needs.

usage: foreign_client.py EMBPS_SERVER PROTO_DIR   (starts the server binary itself, on a free port)"""

import pathlib
import subprocess
import sys
import tempfile

import grpc
import numpy as np
from grpc_tools import protoc

SERVER, PROTO_DIR = sys.argv[1], sys.argv[2]
ROWS, DIM, LEARNING_RATE = 1000, 16, 0.5
FRAME_BYTES = 512 << 10


def generate_stubs(folder):
    names = ["embps/v1/types", "embps/v1/embedding", "embps/v1/table", "embps/v1/stats", "grpc/health/v1/health"]
    options = ["protoc", f"-I{PROTO_DIR}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    if protoc.main(options + [f"{name}.proto" for name in names]) != 0:
        sys.exit("protoc failed")
    # `grpc/health` would hide the grpc package itself: the stock client addresses health by its full method name.
    for path in sorted((pathlib.Path(folder) / "grpc").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (pathlib.Path(folder) / "grpc").rmdir()
    sys.path.insert(0, folder)


def frames(message, header, tensors):
    """Cuts the tensors, in field order, into stream frames; the first one carries the header."""
    first = True
    for name, data in tensors:
        for begin in range(0, len(data), FRAME_BYTES):
            frame = message(**{name: data[begin : begin + FRAME_BYTES]})
            if first:
                frame.header.CopyFrom(header)
                first = False
            yield frame


class ForeignClient:
    def __init__(self, address):
        from embps.v1 import (
            embedding_pb2,
            embedding_pb2_grpc,
            stats_pb2,
            stats_pb2_grpc,
            table_pb2,
            table_pb2_grpc,
            types_pb2,
        )

        self.pb, self.tables_pb, self.types = embedding_pb2, table_pb2, types_pb2
        channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(channel).result(timeout=30)
        self.data = embedding_pb2_grpc.EmbeddingServiceStub(channel)
        self.tables = table_pb2_grpc.TableServiceStub(channel)
        self.info = stats_pb2_grpc.StatsServiceStub(channel).GetServerInfo(stats_pb2.GetServerInfoRequest(), timeout=30)
        self.session = self.data.OpenSession(embedding_pb2.OpenSessionRequest(client_name="foreign"), timeout=30)
        self.sequence = 0

    def create_table(self):
        types = self.types
        spec = types.TableSpec(name="clicks", row_count=ROWS, dim=DIM)
        spec.optimizer.type = types.OPTIMIZER_TYPE_SGD
        spec.optimizer.learning_rate = LEARNING_RATE
        placement = types.Placement(sharding_type=types.SHARDING_TYPE_TABLE_WISE)
        placement.shards.add(row_end=ROWS, column_end=DIM)
        request = self.tables_pb.CreateTablesRequest()
        request.tables.add(spec=spec, placement=placement)
        reply = self.tables.CreateTables(request, timeout=30)
        assert reply.tables[0].created
        self.table = reply.tables[0].table

    def feature(self, batch_size, pooling):
        return self.pb.Feature(
            table_uid=self.table.table_uid,
            placement_version=self.table.placement_version,
            batch_size=batch_size,
            pooling=pooling,
            id_type=self.types.ID_TYPE_INT64,
            dim=DIM,
        )

    def read_rows(self, ids):
        reply = self.tables.ReadRows(
            self.tables_pb.ReadRowsRequest(
                table_uid=self.table.table_uid,
                placement_version=self.table.placement_version,
                ids=np.asarray(ids, "<i8").tobytes(),
            ),
            timeout=30,
        )
        return np.frombuffer(reply.rows, "<f4").reshape(-1, DIM).copy()

    def lookup_header(self, lengths, ids, pooling):
        header = self.pb.LookupHeader(id_count=len(ids))
        header.features.append(self.feature(len(lengths), pooling))
        return header

    def lookup(self, lengths, ids, pooling):
        reply = self.data.Lookup(
            self.pb.LookupRequest(
                header=self.lookup_header(lengths, ids, pooling), lengths=lengths.tobytes(), ids=ids.tobytes()
            ),
            timeout=30,
        )
        return self.assemble([reply], len(lengths))

    def lookup_stream(self, lengths, ids, pooling):
        header = self.lookup_header(lengths, ids, pooling)
        header.total_bytes = lengths.nbytes + ids.nbytes
        request = frames(self.pb.LookupStreamRequest, header, [("lengths", lengths.tobytes()), ("ids", ids.tobytes())])
        return self.assemble(self.data.LookupStream(request, timeout=60), len(lengths))

    def assemble(self, replies, bags):
        out = np.full((bags, DIM), np.nan, "<f4")
        for reply in replies:
            at = 0
            values = np.frombuffer(reply.blocks, "<f4")
            for run in reply.runs:
                assert (run.first_feature, run.feature_count, run.dim) == (0, 1, DIM)
                count = run.row_count * run.dim
                out[run.row_begin : run.row_begin + run.row_count] = values[at : at + count].reshape(-1, DIM)
                at += count
            assert at == len(values)
        assert not np.isnan(out).any()
        return out

    def push_header(self, lengths, ids, pooling):
        self.sequence += 1
        header = self.pb.PushGradHeader(id_count=len(ids), server_incarnation=self.session.server_incarnation)
        header.mutation.session_id = self.session.session_id
        header.mutation.sequence = header.mutation.first_incomplete = self.sequence
        header.mutation.push_digest = 1000 + self.sequence
        header.features.append(self.feature(len(lengths), pooling))
        return header

    def push(self, lengths, ids, grads, pooling):
        request = self.pb.PushGradRequest(
            header=self.push_header(lengths, ids, pooling),
            lengths=lengths.tobytes(),
            ids=ids.tobytes(),
            grads=grads.tobytes(),
        )
        return self.data.PushGrad(request, timeout=30), self.data.PushGrad(request, timeout=30)

    def push_stream(self, lengths, ids, grads, pooling):
        header = self.push_header(lengths, ids, pooling)
        header.total_bytes = lengths.nbytes + ids.nbytes + grads.nbytes
        tensors = [("lengths", lengths.tobytes()), ("ids", ids.tobytes()), ("grads", grads.tobytes())]
        return self.data.PushGradStream(frames(self.pb.PushGradStreamRequest, header, tensors), timeout=60)


def pooled(table, lengths, ids):
    bags = np.repeat(np.arange(len(lengths)), lengths)
    out = np.zeros((len(lengths), DIM), "<f8")
    np.add.at(out, bags, table[ids].astype("<f8"))
    return out


def run(client, random):
    types = client.types
    client.create_table()
    table = client.read_rows(np.arange(ROWS))
    bound = np.sqrt(1 / ROWS)
    assert table.min() >= -bound and table.max() <= bound and table.std() > bound / 3

    def batch(bags, longest):
        lengths = random.integers(0, longest + 1, bags).astype("<i8")
        return lengths, random.integers(0, ROWS, lengths.sum()).astype("<i8")

    lengths, ids = batch(50, 5)
    np.testing.assert_allclose(client.lookup(lengths, ids, types.POOLING_SUM), pooled(table, lengths, ids), atol=1e-6)

    lengths, ids = batch(60_000, 8)  # 3.8 MB of rows back, 2.4 MB of ids up
    np.testing.assert_allclose(
        client.lookup_stream(lengths, ids, types.POOLING_SUM), pooled(table, lengths, ids), atol=1e-6
    )

    lengths, ids = batch(40, 4)
    grads = random.integers(-4, 5, (40, DIM)).astype("<f4")
    first, again = client.push(lengths, ids, grads, types.POOLING_SUM)
    assert first.rows_updated == len(np.unique(ids)) and not first.duplicate and again.duplicate
    expected = table.astype("<f8")
    np.add.at(expected, ids, -LEARNING_RATE * np.repeat(grads, lengths, axis=0))
    np.testing.assert_allclose(client.read_rows(np.arange(ROWS)), expected, atol=1e-5)

    lengths, ids = batch(60_000, 3)
    grads = random.integers(-2, 3, (60_000, DIM)).astype("<f4")
    reply = client.push_stream(lengths, ids, grads, types.POOLING_SUM)
    assert not reply.duplicate and reply.version == first.version + 1
    np.add.at(expected, ids, -LEARNING_RATE * np.repeat(grads, lengths, axis=0))
    np.testing.assert_allclose(client.read_rows(np.arange(ROWS)), expected, rtol=1e-5, atol=1e-3)

    try:
        client.lookup(np.array([1], "<i8"), np.array([ROWS], "<i8"), types.POOLING_SUM)
        raise AssertionError("an id outside the table was accepted")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.OUT_OF_RANGE and "clicks" in error.details(), error


def main():
    with tempfile.TemporaryDirectory() as folder:
        generate_stubs(folder)
        server = subprocess.Popen(
            [SERVER, "--listen=127.0.0.1:0", "--ranks_per_node=2"], stdout=subprocess.PIPE, text=True
        )
        try:
            address = server.stdout.readline().split("address=")[1].split()[0]
            run(ForeignClient(address), np.random.default_rng(7))
        finally:
            server.terminate()
            code = server.wait(timeout=60)
    assert code == 0, f"the server ended with {code}"
    print("a foreign client gets the right numbers")


if __name__ == "__main__":
    main()
