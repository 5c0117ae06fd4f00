"""Sentences that the rules write in English, beside what a Chinese page says for them. A test compares the English with what the rules write.

Placeholders: ``{n}`` a number, ``{value}`` a number with its unit, ``{label}`` a constraint, ``{metric}`` TTFT or TPOT, ``{slots}`` a number of
slots, ``{any}`` anything, kept as it is, ``{rest}`` all that follows; a digit behind tells several of a kind apart.
"""

from __future__ import annotations

from typing import Final

from suffice.report.page.phrase_disturbance import DISTURBANCES

ADVICE: Final = (
    (
        "Measure bandwidth and model again on a quiet machine, and check the model's facts with `suffice ceiling --model`.",
        "请在空闲的机器上重新测量带宽和模型，并用 `suffice ceiling --model` 核对模型参数。",
    ),
    (
        "State a decode rate, a latency limit or a request rate in the demand.",
        "请在需求中写明生成速度、延迟限值或请求率。",
    ),
    (
        "Take a quantization with more bits, or another model, and compare again with `suffice quants`.",
        "请改用位数更多的量化或其他模型，再用 `suffice quants` 比较。",
    ),
    (
        "Compare on more items with `suffice quants`: its result says about how many would do, and what is wrong where more would not help.",
        "请用 `suffice quants` 在更多题目上比较：其结果会说明大约需要多少题，以及更多题目也无济于事时问题在哪里。",
    ),
    (
        "A machine with more memory, or a smaller quantization, would hold it.",
        "内存更大的机器或更小的量化可以容纳它。",
    ),
    (
        "Measure at the load that is needed with its margin, and decide with the result: {rest}",
        "请在计入余量的负载下测量，再据结果判断：{rest}",
    ),
    (
        "Say what the server runs on: --server-kind cpu or --server-kind gpu.",
        "请说明服务器运行在什么上：--server-kind cpu 或 --server-kind gpu。",
    ),
    (
        "No GPU is among them: rent one for an hour, run `suffice measure MODEL --gpu-layers 999 --out gpu.json` there, and decide with both records; `suffice ceiling --device NAME --model MODEL` gives its ceiling beforehand.",
        "其中没有 GPU：请租用一小时，在上面运行 `suffice measure MODEL --gpu-layers 999 --out gpu.json`，再用两份记录判断；`suffice ceiling --device NAME --model MODEL` 可事先给出它的理论上限。",
    ),
    (
        "Measure a CPU machine with the same model: `suffice measure MODEL --out cpu.json`, and decide with both records.",
        "请用同一模型测量一台 CPU 机器：`suffice measure MODEL --out cpu.json`，再用两份记录判断。",
    ),
    ("Measure a faster machine, or several of them.", "请测量更快的机器，或多台机器。"),
    (
        "Enough as far as the provider says: no latency is limited; its rate limit for your account is not known, ask for it.",
        "按提供商的说明够用：需求没有限制延迟；您账户的速率上限未知，请向其询问。",
    ),
    ("Each of {n} takes its part of the load.", "{n} 台各承担一部分负载。"),
    (
        "Each of {n} takes its part of the load: {n2} users with the margin of {n3} are {n4}, {n5} each.",
        "{n} 台各承担一部分负载：{n2} 个用户按 {n3} 倍余量计为 {n4} 个，每台 {n5} 个。",
    ),
    (
        "Not settled: by arithmetic {n} or more of them may hold {label} with margin {n2}; up to {n3} are not shown to, or cost more than the {n4} cheapest of their kind that are enough, beyond which none is looked for.",
        "未定：按算术，{n} 台或更多也许能满足{label}（余量 {n2} 倍）；到 {n3} 台为止没有证明够用，或比同类中够用的最便宜 {n4} 种更贵，更多的未再考察。",
    ),
    ("Measure one: `suffice check` with the same demand.", "请测量其中一台：用同一需求运行 `suffice check`。"),
    (
        "Not settled: time per token and time to first token of this API are not known.",
        "未定：这个 API 的每 token 时间和首 token 时间未知。",
    ),
    (
        "Load it with your requests: `suffice load URL --demand demand.toml`.",
        "请用您的请求对它施加负载：`suffice load URL --demand demand.toml`。",
    ),
    ("Recheck after quantization.", "请在量化后重新检查。"),
    ("Recheck after quantization: `{any}`.", "请在量化后重新检查：`{any}`。"),
    (
        "Recheck after quantization: the margin needs {n} times the load.",
        "请在量化后重新检查：要达到余量，需要 {n} 倍的承载能力。",
    ),
    (
        "Recheck after quantization: the margin needs {n} times the load: `{any}`.",
        "请在量化后重新检查：要达到余量，需要 {n} 倍的承载能力：`{any}`。",
    ),
    (
        "Recheck after quantization: the margin needs {n} times the speed.",
        "请在量化后重新检查：要达到余量，需要 {n} 倍的速度。",
    ),
    (
        "Recheck after quantization: the margin needs {n} times the speed: `{any}`.",
        "请在量化后重新检查：要达到余量，需要 {n} 倍的速度：`{any}`。",
    ),
    (
        "Recheck after quantization: the margin needs {n} times the speed; where memory bandwidth binds, that is a model that streams at most {value} per token (this one streams {value2}).",
        "请在量化后重新检查：要达到余量，需要 {n} 倍的速度；受内存带宽限制时，即每个 token 至多读取 {value} 的模型（现在读取 {value2}）。",
    ),
    (
        "Recheck after quantization: the margin needs {n} times the speed; where memory bandwidth binds, that is a model that streams at most {value} per token (this one streams {value2}): `{any}`.",
        "请在量化后重新检查：要达到余量，需要 {n} 倍的速度；受内存带宽限制时，即每个 token 至多读取 {value} 的模型（现在读取 {value2}）：`{any}`。",
    ),
    (
        "Flash attention was on by the engine's default and not compared: on some CPUs decode behind a long prompt is faster with --flash-attention off, measure that too.",
        "推理引擎默认开启了 flash attention，没有对比过：在某些 CPU 上，长提示词之后的生成在 --flash-attention off 时更快，请也测一次。",
    ),
    (
        "Batching may give the margin: measure the service curve, `suffice check` with the same demand and --slots {n}.",
        "批处理也许能带来所需的余量：请测量服务曲线，用同一需求运行 `suffice check` 并加 --slots {n}。",
    ),
    (
        "First measure the service curve up to {n} tokens: `suffice check DEMAND --budget {any}`.",
        "请先把服务曲线测到 {n} 个 token：`suffice check DEMAND --budget {any}`。",
    ),
    ("{slots} on each of {n} such machines hold it.", "{n} 台这样的机器，每台 {slots}，可以承受。"),
    (
        "{slots} on each of {n} such machines hold it, or fewer where batching gains something.",
        "{n} 台这样的机器，每台 {slots}，可以承受；若批处理有收益，更少即可。",
    ),
    (
        "{slots} on each of {n} such machines hold it with the margin of {n2}.",
        "{n} 台这样的机器，每台 {slots}，可以承受，并有 {n2} 倍余量。",
    ),
    (
        "{slots} on each of {n} such machines hold it with the margin of {n2}, or fewer where batching gains something.",
        "{n} 台这样的机器，每台 {slots}，可以承受，并有 {n2} 倍余量；若批处理有收益，更少即可。",
    ),
    ("Measure it: the record has no evidence about {label}.", "请测量：记录中没有{label}的数据。"),
    (
        "Measure again while nothing else runs: `suffice check` with the same demand.",
        "请在没有其他程序运行时重新测量：用同一需求运行 `suffice check`。",
    ),
    (
        "Measure with an engine built for this CPU: {any}.",
        "请用为这个 CPU 编译的推理引擎测量：{any}。",
    ),
    (
        "Measure with more repetitions: raise --budget, so that there is an interval.",
        "请增加重复次数：调大 --budget，以得到区间。",
    ),
    (
        "The run was shorter than the demand's lengths: raise --budget (a warning of the run says how far), or measure with --prompt-tokens and --depth of the demand.",
        "运行的长度不及需求：请调大 --budget（运行的警告说明要多大），或按需求的 --prompt-tokens 和 --depth 测量。",
    ),
    (
        "Measure longer: raise --budget, so that the interval becomes narrower than the distance to the requirement.",
        "请测量更久：调大 --budget，使区间窄于与要求的差距。",
    ),
    (
        "A single stream cannot tell what several requests at once get: measure the service curve, `suffice check` with the same demand and --slots {n}.",
        "单路测量不能说明多个请求同时进行时的表现：请测量服务曲线，用同一需求运行 `suffice check` 并加 --slots {n}。",
    ),
    (
        "Measure the service curve with more repetitions: raise --budget, so that its points have intervals.",
        "请增加服务曲线的重复次数：调大 --budget，使各点有区间。",
    ),
    (
        "The simulation is not sharp enough to tell: load a server with the demand, `{any}`.",
        "模拟不够精确，无法判断：请按需求对服务器施加负载，`{any}`。",
    ),
    (
        "The simulation is not sharp enough to tell: let a server work off some of it, `{any}`, and decide with the result.",
        "模拟不够精确，无法判断：请让服务器处理其中一部分，`{any}`，再据结果判断。",
    ),
)
"""What to do next; see :mod:`suffice.decide.advice`. Beside it what reasons of a plan's options add to how they stand."""

NOTES: Final = (
    *DISTURBANCES,
    ("simulated: llama-server", "模拟：llama-server"),
    ("simulated with a queue that is never empty: llama-server", "按队列从不为空模拟：llama-server"),
    ("a slot each", "每个用户一个槽位"),
    ("--parallel {n}", "--parallel {n}"),
    ("from the measured service curve", "依据实测的服务曲线"),
    ("from a single stream: no gain by batching at the low end", "依据单路测量：下端按批处理没有收益计"),
    ("each token at the prefill rate at the high end", "上端按每个 token 都以预填充（prefill）的速度计"),
    ("memory holds {n}", "内存可容纳 {n} 个"),
    (
        "even one user misses the limit: {metric} P{n} {value} against {value2}",
        "只有一个用户也超限：{metric} P{n} 为 {value}，限值 {value2}",
    ),
    (
        "even one user misses the limits: {metric} P{n} {value} against {value2}",
        "只有一个用户也超限：{metric} P{n} 为 {value}，限值 {value2}",
    ),
    (
        "even a request that is alone misses the limit: {metric} P{n} {value} against {value2}",
        "单独一个请求也超限：{metric} P{n} 为 {value}，限值 {value2}",
    ),
    (
        "even a request that is alone misses the limits: {metric} P{n} {value} against {value2}",
        "单独一个请求也超限：{metric} P{n} 为 {value}，限值 {value2}",
    ),
    ("{metric} P{n} {value} against {value2}", "{metric} P{n} 为 {value}，限值 {value2}"),
    ("{n} requests/s", "{n} 请求/s"),
    ("prompt and output tokens together", "提示词与回答的 token 合计"),
    ("{n} requests a day", "每天 {n} 个请求"),
    ("all there at the start", "开始时全部到齐"),
    ("{n} of them simulated and the rest in proportion", "模拟其中 {n} 个，其余按比例推算"),
    ("beyond what was measured: {n} sequences in a step", "超出实测范围：一步中 {n} 个序列"),
    ("beyond what was measured: {n} tokens in a cache", "超出实测范围：缓存中 {n} 个 token"),
    ("beyond what was measured: {n} tokens of a pass", "超出实测范围：一次处理 {n} 个 token"),
    ("{n} sequences in a step", "一步中 {n} 个序列"),
    ("{n} tokens in a cache", "缓存中 {n} 个 token"),
    ("{n} tokens of a pass", "一次处理 {n} 个 token"),
    ("{n} were measured", "实测到 {n}"),
    ("prompts of {n} tokens are taken", "提示词按 {n} 个 token 计"),
    ("answers of {n} tokens are taken", "回答按 {n} 个 token 计"),
    ("prompts of {n} and answers of {n2} tokens are taken", "提示词按 {n} 个、回答按 {n2} 个 token 计"),
    ("the demand states none", "需求没有写明"),
    ("P{n} of requests", "请求的 P{n}"),
    ("in {any}", "见 {any}"),
    ("held at {value} in {any}", "{value} 时满足，见 {any}"),
    ("held at {value} asked", "要求 {value} 时满足"),
    ("failed at {value} in {any}", "{value} 时不满足，见 {any}"),
    ("failed at {value} asked", "要求 {value} 时不满足"),
    ("{n} sent in {any}", "实际发出 {n}，见 {any}"),
    ("P{n} of all attempts", "全部请求的 P{n}"),
    ("at {value} with {slots}", "{value}、{slots}时"),
    ("the margin is one of load", "余量以负载计"),
    ("weights, buffers and a KV cache of {n} tokens", "权重、缓冲区和 {n} 个 token 的 KV 缓存"),
    (
        "weights, buffers and a KV cache of {n} tokens for each of {n2} slots",
        "权重、缓冲区，以及 {n2} 个槽位各 {n} 个 token 的 KV 缓存",
    ),
    ("what the model takes is not known", "模型需要多少内存未知"),
    ("what the machine has is not known", "机器有多少内存未知"),
    ("no price is known to this command", "这个命令不知道价格"),
    ("a load tool's file says nothing of it", "负载工具的文件没有说明"),
    (
        "extrapolated: slices of the model with random weights were run, not the model itself",
        "外推：运行的是随机权重的模型切片，不是模型本身",
    ),
    (
        "the prompt was shortened from {n} to {n2} tokens to fit the budget of {value}",
        "为符合 {value} 的预算，提示词从 {n} 个 token 缩短到 {n2} 个",
    ),
    (
        "the depth was shortened from {n} to {n2} tokens to fit the budget of {value}",
        "为符合 {value} 的预算，深度从 {n} 个 token 缩短到 {n2} 个",
    ),
    ("all of it takes about --budget {any}", "完整测量大约需要 --budget {any}"),
    ("left out: {n} without a price that is known", "未列入：{n} 种，价格未知"),
    (
        "left out: {n} with CPU credits, which a short test flatters",
        "未列入：{n} 种，按 CPU 积分运行，短测试会高估它们",
    ),
    ("left out: {n} with less memory than the weights' {value}", "未列入：{n} 种，内存小于权重的 {value}"),
    (
        "left out: {n} that cost more than another one of the provider with the same CPU or accelerator",
        "未列入：{n} 种，比同一厂商同款 CPU 或加速器的另一种更贵",
    ),
    ("left out: {n} of which too little is known for a prediction", "未列入：{n} 种，已知信息太少，无法预测"),
    (
        "an open option has the bill of the fewest machines that may do: more of them may be needed",
        "评判为“未定”的方案按可能够用的最少机器数计费，实际可能需要更多",
    ),
    (
        "users are no volume: without volume_per_day (or --requests-per-day) an API has no bill, and a million tokens no price",
        "只有用户数时没有请求量：不写 volume_per_day（或 --requests-per-day），API 就没有账单，每百万 token 也没有价格",
    ),
    ("the rate is billed all day, {n} requests", "请求速率按全天计费，每天 {n} 个请求"),
    (
        "where it is that of the busiest hour, state volume_per_day (or --requests-per-day) beside it: an API costs by the request, a machine by the hour",
        "如果它是最忙时段的速率，请另外写明 volume_per_day（或 --requests-per-day）：API 按请求收费，机器按小时收费",
    ),
    ("no API of the catalogue is known to serve this model", "目录中没有已知提供这个模型的 API"),
    ("--api NAME takes another one's instead", "可用 --api NAME 改用其他模型的 API"),
    ("{n} measured rows of {any}", "{any} 有 {n} 行实测数据"),
    ("{n} products of {any}", "{any} 有 {n} 种产品"),
    ("range: errors of {n} rows that had been left out", "区间：由留出的 {n} 行的误差得出"),
    ("in which precision it is served, the price list does not say", "价格表没有说明以何种精度提供"),
    (
        "rented for the window only, {n} hours a month; never given back it is {value} ({n2} hours), and starting it and loading the model take their time in the window",
        "只在时间窗内租用，每月 {n} 小时；若一直不退租则为 {value}（{n2} 小时），启动机器和加载模型也占用时间窗",
    ),
    ("{n} machines of clouds, measured with llama.cpp", "{n} 台云主机，用 llama.cpp 测量"),
    ("{n} machines with this CPU ({any})", "{n} 台用这款 CPU 的机器（{any}）"),
    ("{n} machines of this family of instances ({any})", "{n} 台同一系列的实例（{any}）"),
    (
        "its read bandwidth was not measured; it is taken from the generation of the CPU and the cores",
        "没有测量它的读带宽，按 CPU 的代次和核心数推定",
    ),
    ("the measured read bandwidth of this machine", "这台机器实测的读带宽"),
    ("its record is of {any} on {any2}", "它的记录是 {any2} 上的 {any}"),
    (
        "sunk: it is paid for already, so that its price decides nothing; --machine-price and --machine-months write it off",
        "沉没成本：机器已经付过钱，价格不影响决定；可用 --machine-price 和 --machine-months 计入折旧",
    ),
    (
        "its energy is not counted: --machine-watts and --price-per-kwh are not stated",
        "没有计入电费：没有给出 --machine-watts 和 --price-per-kwh",
    ),
    (
        "{n} devices share the layers: they add memory, and one stream passes them in turn, so that they add no speed",
        "{n} 个设备分担各层：内存相加，但单路请求依次经过它们，速度不增加",
    ),
    ("the device itself was not measured; what is known is its class", "没有测量过这个设备本身，已知的是它的同类"),
    (
        "{any} for the {n} % of the requests that somebody waits for, {any2} for the rest, which is worked off within the day",
        "{any} 处理有人等待的 {n} % 的请求，{any2} 在当天内处理其余请求",
    ),
    ("machine hours", "机器时长"),
    ("machine hours, {any}", "机器时长，{any}"),
    ("input tokens", "输入 token"),
    ("output tokens", "输出 token"),
    ("energy", "电费"),
    ("machines of one kind are held to the limits in every request", "同类机器的方案要求每个请求都满足限值"),
    ("a hybrid only in the share that waits", "混合方案只对有人等待的那部分请求有此要求"),
    (
        "{any} costs less than {any2} at every volume that the machine carries",
        "在该机器能承载的任何用量下，{any} 都比 {any2} 便宜",
    ),
)
"""Parts of the notes of constraints, reasons of disturbance, warnings of records and notes of plans, between commas and semicolons."""
