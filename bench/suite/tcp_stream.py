"""How fast one plain TCP stream is: what a link carries at most.

  tcp_stream.py receive PORT            prints "payload GIGABYTES_A_SECOND" of the stream that it is sent
  tcp_stream.py send ADDRESS PORT SECONDS CONGESTION_CONTROL
"""
import socket
import sys
import time

PIECE = 1 << 20


def receive(port):
    with socket.create_server(("", port)) as server:
        stream, _ = server.accept()
    buffer = bytearray(PIECE)
    # The first part of a stream is slower, and the sender's last buffers come in a burst: neither is counted.
    times = [(time.perf_counter(), 0)]
    while got := stream.recv_into(buffer):
        times.append((time.perf_counter(), times[-1][1] + got))
    begin = next(entry for entry in times if entry[0] > times[0][0] + 0.3 * (times[-1][0] - times[0][0]))
    end = times[-1]
    print(f"payload {(end[1] - begin[1]) / (end[0] - begin[0]) / 1e9:.5f}", flush=True)


def send(address, port, seconds, control):
    for _ in range(100):  # the receiver may not listen yet
        try:
            stream = socket.create_connection((address, port))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    with stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        piece = bytes(PIECE)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            stream.sendall(piece)


if sys.argv[1] == "receive":
    receive(int(sys.argv[2]))
else:
    send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
