"""Workloads and requests as other tools write them, written by hand in the manner of each."""

from __future__ import annotations

GOAL = """\
// two ranks
num_ranks 2

rank 0 {
l1: calc 5000
l2: send 64b to 1 tag 3 cpu 1
l2 requires l1
}
rank 1 { /* waits */
l1: recv 64b from 0 tag 3
l2: calc 100
l2 requires l1
l3: calc 7
l3 irequires l2
}
"""

SIMAI = """\
HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 2 vpp: 1 ga: 1 all_gpus: 16 \
checkpoints: 0 checkpoint_initiates: 0 pp_comm 4096
3
embedding\t-1\t1000\tALLREDUCE\t4096\t1\tNONE\t0\t1\tNONE\t0\t100
attention -1  2000 NONE 0   1500 ALLREDUCE 8192 1400 NONE 0 50
experts\t-1\t3000\tALLTOALL_EP\t2048\t3000\tALLTOALL_EP\t2048\t10\tREDUCESCATTER_DP_EP\t65536\t0\t
"""

ASTRA1 = """\
DATA
2
conv1\t-1\t130\tNONE\t0\t128\tNONE\t0\t322\tALLREDUCE\t37632\t32\t\t
conv2 -1 34 NONE 0 36 NONE 0 74 ALLREDUCE 65536 7
"""

AICB = """\
[rank0 ~ rank7]
comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count
CommType.all_reduce,CommGroup.dp_group,4,8,init.model_setup,None,None,,None,None,None,1
CommType.epoch_end,None,None,0,,None,None,,None,None,None,1
CommType.all_gather,CommGroup.tp_group,2,4096,forward.layer,None,None,,None,None,None,1
CommType.computation,None,None,0,forward.mlp,None,None,,12.5,None,None,1
CommType.reduce_scatter,CommGroup.dp_group,4,65536,backward,None,None,,None,None,None,1
CommType.epoch_end,None,None,0,,None,None,,None,None,None,1
"""

PARAM = (
    '[{"comms": "init", "pg_id": 0, "global_ranks": [0, 1]}, '
    '{"comms": "all_reduce", "in_msg_size": 256, "out_msg_size": 256, "dtype": "Float", "pg_id": 0}, '
    '{"compute": "gemm"}, {"comms": "wait", "pg_id": 0}, '
    '{"comms": "all_to_allv", "in_msg_size": 64, "out_msg_size": 64, "dtype": "Half", "pg_id": 0}]'
)

MSCCL = """\
<algo name="ring" proto="LL128" nchannels="1" nchunksperloop="3" ngpus="3" coll="allgather" inplace="1">
  <gpu id="0" i_chunks="0" o_chunks="3" s_chunks="0">
    <tb id="0" send="1" recv="2" chan="0">
      <step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1"/>
      <step s="1" type="rcs" srcbuf="o" srcoff="2" dstbuf="o" dstoff="2" cnt="1" depid="-1" deps="-1"/>
      <step s="2" type="r" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="0" o_chunks="3" s_chunks="0">
    <tb id="0" send="2" recv="0" chan="0">
      <step s="0" type="s" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1"/>
      <step s="1" type="rcs" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1"/>
      <step s="2" type="r" srcbuf="o" srcoff="2" dstbuf="o" dstoff="2" cnt="1" depid="-1" deps="-1"/>
    </tb>
  </gpu>
  <gpu id="2" i_chunks="0" o_chunks="3" s_chunks="0">
    <tb id="0" send="0" recv="1" chan="0">
      <step s="0" type="s" srcbuf="o" srcoff="2" dstbuf="o" dstoff="2" cnt="1" depid="-1" deps="-1"/>
      <step s="1" type="rcs" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1"/>
      <step s="2" type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1"/>
    </tb>
  </gpu>
</algo>
"""

_CHANNEL = '"channel_ids": [0], "channel_type": "memory"'
_GPU = """{{"id": {gpu}, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 0,
  "channels": [{{"channel_type": "memory", "connected_to": [{peer}]}}],
  "remote_buffers": [{{"rank": {peer}, "type": "i", "access_channel_types": ["memory"]}}], "semaphores": [],
  "threadblocks": [{{"id": 0, "channels": [{{"channel_type": "memory", "channel_ids": [0]}}],
    "remote_buffer_refs": [{{"access_channel_type": "memory", "remote_buffer_ids": [0]}}],
    "ops": [{{"name": "signal", {channel}}}, {{"name": "wait", {channel}}},
      {{"name": "rres", "reduce_op": "sum",
        "src_buff": [{{"type": "i", "index": {gpu}, "size": 1}}, {{"buffer_id": 0, "index": {gpu}}}],
        "dst_buff": [{{"type": "i", "index": {gpu}, "size": 1}}, {{"buffer_id": 0, "index": {gpu}}}]}},
      {{"name": "signal", {channel}}}, {{"name": "wait", {channel}}}]}}]}}"""
MSCCLPP = (
    '{"name": "two", "collective": "allreduce", "protocol": "Simple", "inplace": true, '
    '"min_message_size": 4096, "gpus": ['
    + ", ".join(_GPU.format(gpu=g, peer=1 - g, channel=_CHANNEL) for g in (0, 1))
    + "]}"
)

DYNAMO = "\n".join(
    [
        '{"timestamp": 1, "event": {"schema": "dynamo.request.trace.v1", "event_type": "request_end", '
        '"agent_context": {"session_id": "a"}, "request": {"request_id": "r0", "input_tokens": 40, '
        '"output_tokens": 5, "request_received_ms": 1000, "total_time_ms": 250.0, '
        '"replay": {"trace_block_size": 16, "input_sequence_hashes": [7, 8, 9]}}}}',
        '{"timestamp": 2, "event": {"schema": "dynamo.request.trace.v1", "event_type": "tool_start"}}',
        '{"timestamp": 3, "event": {"schema": "dynamo.request.trace.v1", "event_type": "request_end", '
        '"agent_context": {"session_id": "a"}, "request": {"request_id": "r1", "input_tokens": 60, '
        '"output_tokens": 6, "request_received_ms": 2000, "total_time_ms": 100.0, '
        '"replay": {"trace_block_size": 16, "input_sequence_hashes": [7, 8, 1]}}}}',
        '{"timestamp": 4, "event": {"schema": "dynamo.request.trace.v1", "event_type": "request_end", '
        '"request": {"request_id": "r2", "input_tokens": 10, "output_tokens": 0, '
        '"request_received_ms": 1500, "total_time_ms": 1.0}}}',
    ]
)

AIPERF = (
    '{"metadata": {"request_start_ns": 1000000000, "request_end_ns": 2000000000, "x_request_id": "a"}, '
    '"metrics": {"input_sequence_length": {"value": 100, "unit": "tokens"}, '
    '"output_sequence_length": {"value": 7, "unit": "tokens"}}, "error": null}\n'
    '{"metadata": {"request_start_ns": 1500000000, "request_end_ns": 1600000000}, "metrics": '
    '{"input_sequence_length": {"value": 50}, "output_sequence_length": {"value": 3}}, "error": null}\n'
    '{"metadata": {"request_start_ns": 1700000000}, "metrics": {}, "error": {"code": 500}}\n'
    '{"metadata": {"request_start_ns": 9, "request_end_ns": 10, "benchmark_phase": "warmup"}, '
    '"metrics": {"input_sequence_length": {"value": 9}, "output_sequence_length": {"value": 9}}}\n'
)

GUIDELLM = (
    '{"metadata": {"guidellm_version": "0.5"}, "benchmarks": [{"type_": "generative_benchmark", '
    '"requests": {"successful": [{"request_id": "q", "prompt_tokens": 128, "output_tokens": 10, '
    '"info": {"timings": {"request_start": 1700000005.0, "request_end": 1700000006.5}}}, '
    '{"request_id": "p", "prompt_tokens": 64, "output_tokens": 20, '
    '"info": {"timings": {"request_start": 1700000004.0, "request_end": 1700000007.0}}}], '
    '"errored": [{}], "incomplete": []}}]}'
)

OTEL = (
    '{"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": ['
    '{"spanId": "b", "startTimeUnixNano": "2000000000", "endTimeUnixNano": "3000000000", "attributes": ['
    '{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12"}}, '
    '{"key": "gen_ai.usage.output_tokens", "value": {"intValue": "4"}}]}, '
    '{"spanId": "a", "startTimeUnixNano": "1000000000", "endTimeUnixNano": "1500000000", "attributes": ['
    '{"key": "gen_ai.usage.prompt_tokens", "value": {"intValue": 30}}, '
    '{"key": "gen_ai.usage.completion_tokens", "value": {"intValue": 5}}]}, '
    '{"spanId": "c", "startTimeUnixNano": "1", "endTimeUnixNano": "2", "attributes": []}]}]}]}'
)

BLIS = """\
version: "2"
seed: 42
aggregate_rate: 10.0
num_requests: 60
clients:
  - id: batch
    rate_fraction: 0.5
    arrival: {process: gamma, cv: 2.0}
    input_distribution:
      {type: pareto_lognormal, params: {alpha: 1.5, xm: 50, mu: 5.5, sigma: 1.2, mix_weight: 0.3}}
    output_distribution: {type: exponential, params: {mean: 64}}
  - id: chat
    rate_fraction: 0.5
    arrival: {process: poisson}
    input_distribution: {type: gaussian, params: {mean: 100, std_dev: 10, min: 50, max: 200}}
    output_distribution: {type: constant, params: {value: 20}}
    reasoning: {multi_turn: {max_rounds: 3, think_time_us: 500000, context_growth: accumulate}}
"""

BLIS_TRACE = """\
request_id,client_id,session_id,round_index,prefix_group,prefix_length,streaming,input_tokens,output_tokens,\
model,server_input_tokens,arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,num_chunks,status
0,c1,s1,0,,0,true,100,20,,0,0,100,50000,250000,20,ok
1,c1,s1,1,,0,true,190,30,,200,750000,750100,800000,900000,30,ok
2,c2,,0,g,64,true,300,10,,0,800000,800100,0,0,0,ok
3,c2,s2,0,,0,true,300,10,,0,900000,900100,0,0,0,timeout
"""
"""A session of two rounds, half a second apart; a request alone; one that failed."""
SERVEGEN = "0,0,0,,0,0\n600,0.5,2.0,Gamma,0.25,8.0\n1200,0.1,1.0,Weibull,1.0,10.0\n"
SERVEGEN_LENGTHS = (
    '{"0": {"input_tokens": "{}", "output_tokens": "{}"}, '
    '"600": {"input_tokens": "{100: 0.5, 200: 0.5}", "output_tokens": "{10: 0.25, 20: 7.5e-1}", '
    '"reason_ratio": "{0.5: 0.9, 0.75: 0.1}"}}'
)
