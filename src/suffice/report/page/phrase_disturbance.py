"""Why a run was disturbed, as the rules write it in English, beside the Chinese; and the warnings of records that go with it."""

from __future__ import annotations

from typing import Final

_REASONS: Final = (
    (
        "the hypervisor took {n}% of the CPU time (steal; limit {n2}%)",
        "虚拟机管理程序占去了 {n}% 的 CPU 时间（steal，限值 {n2}%）",
    ),
    (
        "other processes used {n} CPUs on the {n2} that we may use (limit {n3})",
        "其他进程在可用的 {n2} 个 CPU 上占用了 {n} 个（限值 {n3}）",
    ),
    (
        "the cgroup CPU quota stopped us for {n}% of the CPU time",
        "cgroup 的 CPU 配额使我们在 {n}% 的 CPU 时间里停下",
    ),
    ("the cgroup CPU quota stopped us", "cgroup 的 CPU 配额使我们停下"),
    ("the CPU slowed down {n} times because of heat", "CPU 因过热降频 {n} 次"),
    (
        "{n} pages were read from a disk while measuring: the model does not stay in memory",
        "测量时从磁盘读入了 {n} 页：模型没有一直留在内存里",
    ),
    ("the machine swapped {n} pages while measuring", "测量时机器交换了 {n} 页"),
    (
        "the engine's threads waited {n}% of the time for a CPU (limit {n2}%)",
        "引擎的线程有 {n}% 的时间在等待 CPU（限值 {n2}%）",
    ),
    (
        "something in our cgroup waited {n}% of the time for a CPU (limit {n2}%)",
        "我们的 cgroup 中有 {n}% 的时间在等待 CPU（限值 {n2}%）",
    ),
    (
        "the engine's process was stopped (SIGSTOP, or a debugger) while measuring",
        "测量时引擎的进程被停住（SIGSTOP 或调试器）",
    ),
    (
        "for {n}% of the time no thread of the engine ran or waited for a CPU (limit {n2}%): its process was stopped, or waited for a disk",
        "有 {n}% 的时间引擎没有线程在运行或等待 CPU（限值 {n2}%）：进程被停住，或在等待磁盘",
    ),
    (
        "our cgroup waited {n}% of the time for memory to be freed",
        "我们的 cgroup 有 {n}% 的时间在等待释放内存",
    ),
    (
        "our cgroup reached its memory limit {n} times while measuring",
        "测量时我们的 cgroup 有 {n} 次达到内存上限",
    ),
    (
        "memory bandwidth was {value} before and {value2} after (limit {n}%): the memory bus is shared",
        "内存带宽测量前为 {value}，测量后为 {value2}（限值 {n}%）：内存总线被共用",
    ),
    ("reading memory took up to {n} times as long as undisturbed", "读内存最多用了未受干扰时的 {n} 倍时间"),
    ("computing took up to {n} times as long as undisturbed", "计算最多用了未受干扰时的 {n} 倍时间"),
    (
        "{n} of {n2} repetitions of decode at depth {n3} were disturbed",
        "深度 {n3} 处生成（decode）的 {n2} 次重复中有 {n} 次受到干扰",
    ),
    (
        "{n} of {n2} repetitions of prefill were disturbed",
        "预填充（prefill）的 {n2} 次重复中有 {n} 次受到干扰",
    ),
)

DISTURBANCES: Final = (
    *_REASONS,
    *((f"one by this: {plain}", f"其中一次的原因：{chinese}") for plain, chinese in _REASONS),
    *((f"measured on a busy machine: {plain}", f"在繁忙的机器上测量：{chinese}") for plain, chinese in _REASONS),
    (
        "in {n} of {n2} readings between repetitions: the memory bus is shared",
        "在两次重复之间的 {n2} 次读数中有 {n} 次如此：内存总线被共用",
    ),
    (
        "in {n} of {n2} readings between repetitions: the CPU's clock was lower",
        "在两次重复之间的 {n2} 次读数中有 {n} 次如此：CPU 频率较低",
    ),
    ("or its cores were shared", "或核心被共用"),
    (
        "the slices' times of {n} points of the service curve do not lie on a line (one is {n2}% off, {n3}% are allowed): what rests on them is no evidence",
        "服务曲线有 {n} 个点的切片时间不在一条直线上（其中一个偏离 {n2}%，允许 {n3}%）：以此为依据的结论没有根据",
    ),
    (
        "the slices' times of {n} points of the service curve do not lie on a line (one is {n2}% off, {n3}% are allowed): they are left out of the curve",
        "服务曲线有 {n} 个点的切片时间不在一条直线上（其中一个偏离 {n2}%，允许 {n3}%）：曲线不采用这些点",
    ),
    ("measure again on a quiet machine", "请在空闲的机器上重新测量"),
    (
        "{n} of {n2} passes of the service curve are left out, since the slices' times do not lie on a line ({n3}% are allowed)",
        "服务曲线的 {n2} 次测量中有 {n} 次未采用，因为切片时间不在一条直线上（允许 {n3}%）",
    ),
    (
        "the service curve lacks {any}: its {value} or the memory were too little",
        "服务曲线缺少 {any}：{value} 的预算或内存不够",
    ),
    ("give more --budget", "请增大 --budget"),
    ("the curve goes through the others", "曲线由其余测量得出"),
    ("there is no curve without them", "除去它们便没有曲线"),
    (
        "steps of {any} sequences grew less with depth than reading the cache takes at the measured bandwidth: noise, or a wrong bandwidth",
        "{any} 个序列的步长随深度的增长小于按实测带宽读取缓存所需的时间：可能是噪声，或带宽有误",
    ),
    ("they are taken to grow by the reading at least", "按至少增长读取所需的时间计"),
)
"""Parts between commas and semicolons, as in :data:`suffice.report.page.phrase_book.NOTES`."""
