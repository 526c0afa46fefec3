import type { Mutation } from './mutation.ts'

const analysis = 'packages/eval/src/analysis'
const rules = { tests: ['packages/eval/test/analysis/figure-rules.test.ts'] }
const step = { file: `${analysis}/training/step-figures.ts`, ...rules }
const alarms = { file: `${analysis}/training/findings/training-alarms.ts`, ...rules }
const series = { file: `${analysis}/training/training-series.ts`, ...rules }
const behaviour = { file: `${analysis}/training/findings/behaviour-change.ts`, ...rules }
const comparison = { file: `${analysis}/comparison/compare-runs.ts`, ...rules }
const difference = { file: `${analysis}/statistics/paired-difference.ts`, ...rules }

/** Figures of runs and trainings, what is said about them, and alarms. */
export const figureMutations: readonly Mutation[] = [
  {
    name: 'figures: a run is better at an interval of 80 %',
    from: 'if (Math.abs(value) > half) {',
    to: 'if (Math.abs(value) > half * 0.65) {',
    ...difference,
  },
  {
    name: 'figures: a run that is worse is better',
    from: "const tone = value > 0 ? 'better' : 'worse'\n    const [near",
    to: "const tone = value !== 0 ? 'better' : 'worse'\n    const [near",
    ...difference,
  },
  {
    name: 'figures: intervals have the quantile of 90 %',
    file: `${analysis}/statistics/estimate.ts`,
    from: 'const half = tQuantile(count - 1) * error',
    to: 'const half = tQuantile(count - 1) * error * 0.84',
    ...rules,
  },
  {
    name: 'figures: intervals have one degree of freedom too many',
    file: `${analysis}/statistics/estimate.ts`,
    from: 'const half = tQuantile(count - 1) * error',
    to: 'const half = tQuantile(count) * error',
    ...rules,
  },
  {
    name: 'figures: attempts at one row are independent',
    file: `${analysis}/statistics/estimate.ts`,
    from: 'squares += (row.sum - value * row.weight) ** 2',
    to: 'squares += (row.sum - value * row.weight) ** 2 / row.weight',
    ...rules,
  },
  {
    name: 'figures: the values of a facet are those of the other run',
    from: 'facetChanges(rows, b, by, scale)',
    to: 'facetChanges(rows, a, by, scale)',
    ...comparison,
  },
  {
    name: 'figures: the values of a facet are those of another row',
    from: 'const value = table.facets(row.b)[by]',
    to: 'const value = table.facets(row.a)[by]',
    ...comparison,
  },
  {
    name: 'figures: the change of a facet is that of its last row',
    from: 'pairedDifference(group.map(({ change }) => change))',
    to: 'pairedDifference(group.slice(-1).map(({ change }) => change))',
    ...comparison,
  },
  {
    name: 'figures: rows are settled that never pass, and no others',
    from: "filter(({ kind }) => kind !== 'signal')",
    to: "filter(({ kind }) => kind === 'never')",
    ...step,
  },
  {
    name: 'figures: rows with other equal rewards are not settled',
    from: "filter(({ kind }) => kind !== 'signal')",
    to: "filter(({ kind }) => kind !== 'signal' && kind !== 'flat')",
    ...step,
  },
  {
    name: 'figures: tokens that the policy read are tokens that it wrote',
    from: 'event.completion_tokens ?? 0',
    to: 'event.tokens ?? 0',
    ...step,
  },
  {
    name: 'figures: answers that were cut off are a share of the rollouts',
    from: 'total(({ calls }) => calls),',
    to: 'ended.length,',
    ...step,
  },
  {
    name: 'figures: a rollout has one answer that was cut off',
    from: "total((event) => event.finish['length'] ?? 0)",
    to: "total((event) => (event.finish['length'] ? 1 : 0))",
    ...step,
  },
  {
    name: 'figures: tokens are those of rollouts that did not fail',
    from: 'const count = Math.max(1, ended.length)',
    to: "const count = Math.max(1, ended.filter(({ status }) => status !== 'failed').length)",
    ...step,
  },
  {
    name: 'figures: rollouts that failed are not in the pass rate',
    file: `${analysis}/figures/reward-figures.ts`,
    from: 'rows.map(({ passed, ended }) => ({ sum: passed, weight: ended }))',
    to: 'rows.map(({ passed, graded }) => ({ sum: passed, weight: graded }))',
    ...rules,
  },
  {
    name: 'figures: tokens of a run include those of the prompts',
    file: `${analysis}/figures/behaviour-figures.ts`,
    from: 'completion_tokens: (item) => columns.completionTokens[item]',
    to: 'completion_tokens: (item) => (columns.completionTokens[item] ?? 0) + (columns.promptTokens[item] ?? 0)',
    ...rules,
  },
  {
    name: 'figures: a run reads what it wrote',
    file: `${analysis}/figures/report-figures.ts`,
    from: '[sumOf(columns.completionTokens), sumOf(columns.promptTokens)]',
    to: '[sumOf(columns.promptTokens), sumOf(columns.completionTokens)]',
    ...rules,
  },
  {
    name: 'figures: rollouts that failed are a share of those that did not',
    from: 'rollouts.failed / rollouts.rollouts,',
    to: 'rollouts.failed / Math.max(1, rollouts.rollouts - rollouts.failed),',
    ...series,
  },
  {
    name: 'figures: the failures of both ends are a share of the same rollouts',
    from: 'figures.failed / figures.rollouts)',
    to: 'figures.failed / (first[0]?.rollouts ?? 1))',
    ...behaviour,
  },
  {
    name: 'figures: held-out rows are one step late',
    from: 'seriesOf(evaluations)',
    to: 'seriesOf(evaluations.map((each) => ({ ...each, step: each.step + 1 })))',
    ...series,
  },
  {
    name: 'figures: groups with a signal are a share of the sequences',
    from: 'batch.groupsWithSignal / batch.groups,',
    to: 'batch.groupsWithSignal / batch.sequences,',
    ...series,
  },
  {
    name: 'figures: a drift of 0.3 raises the first alarm',
    from: 'drift: 0.05,',
    to: 'drift: 0.3,',
    ...alarms,
  },
  {
    name: 'figures: half of the rollouts may fail without an alarm',
    from: '  failed: 0.2,',
    to: '  failed: 0.5,',
    ...alarms,
  },
  {
    name: 'figures: an entropy near 0 raises no alarm',
    from: 'entropy: 0.01,',
    to: 'entropy: 0.001,',
    ...alarms,
  },
  {
    name: 'figures: an alarm about cut answers comes at its limit',
    from: 'rollouts.cutOff > limits.cutOff',
    to: 'rollouts.cutOff >= limits.cutOff',
    ...alarms,
  },
  {
    name: 'figures: hacking is a reward that falls',
    from: '(rollouts.reward ?? 0) > meanOf(first',
    to: '(rollouts.reward ?? 0) < meanOf(first',
    ...alarms,
  },
  {
    name: 'figures: hacking is work that rises',
    from: 'now >= least',
    to: 'now <= least',
    ...alarms,
  },
  {
    name: 'figures: hacking is looked for in tokens alone',
    from: "['tool calls', ({ toolCalls }) => toolCalls],",
    to: '',
    ...alarms,
  },
  {
    name: 'figures: half of the work is all of it',
    from: 'lostWork: 1 / 4',
    to: 'lostWork: 1 / 2',
    ...alarms,
  },
  {
    name: 'figures: groups without a signal raise no alarm',
    from: 'if (batch.groupsWithSignal === 0) {',
    to: 'if (batch.groupsWithSignal < 0) {',
    ...alarms,
  },
  {
    name: 'figures: an evaluation is recorded one step late',
    file: 'packages/train/src/loop/train.ts',
    from: '      run,\n      step,\n      version: this.#learner.version,',
    to: '      run,\n      step: step + 1,\n      version: this.#learner.version,',
    tests: ['packages/train/test/train.test.ts'],
  },
  {
    name: 'figures: attempts are drawn with replacement',
    file: `${analysis}/figures/reward-figures.ts`,
    from: 'chance *= Math.max(0, total - marked - i) / (total - i)',
    to: 'chance *= Math.max(0, total - marked) / total',
    ...rules,
  },
  {
    name: 'figures: a rollout that failed has the reward 0',
    file: `${analysis}/figures/reward-figures.ts`,
    from: 'rows.map(({ graded, mean }) => ({ sum: (mean ?? 0) * graded, weight: graded })),',
    to: 'rows.map(({ graded, mean, ended }) => ({ sum: (mean ?? 0) * graded, weight: ended })),',
    ...rules,
  },
  {
    name: 'figures: a reward at the threshold does not pass',
    file: `${analysis}/table/attempts.ts`,
    from: 'return value !== null && value >= threshold',
    to: 'return value !== null && value > threshold',
    ...rules,
  },
  {
    name: 'figures: a row always passes whose other attempts failed',
    file: `${analysis}/table/attempts.ts`,
    from: 'const kind = passed === values.length',
    to: 'const kind = passed === known.length',
    ...rules,
  },
  {
    name: 'figures: rows with two attempts are of no kind',
    file: `${analysis}/table/run-table.ts`,
    from: 'if (ended >= needed) kinds[kind] += 1',
    to: 'if (ended > needed) kinds[kind] += 1',
    ...rules,
  },
  {
    name: 'figures: rollouts whose samples were removed are completed',
    file: `${analysis}/figures/run-metrics.ts`,
    from: 'completed_samples: counted.length,',
    to: 'completed_samples: items.length,',
    ...rules,
  },
  {
    name: 'figures: the tokens of a summary are all that were written',
    file: `${analysis}/figures/run-metrics.ts`,
    from: "completion_tokens: sumOf('completion_tokens'),",
    to: "completion_tokens: sumOf('tokens'),",
    ...rules,
  },
  {
    name: 'figures: the pass rate of a summary leaves out what failed',
    file: `${analysis}/figures/run-metrics.ts`,
    from: 'pass_rate: passRate(rows).value ?? 0,',
    to: 'pass_rate: values.length === 0 ? 0 : rows.reduce((sum, { passed }) => sum + passed, 0) / values.length,',
    ...rules,
  },
  {
    name: 'figures: a share of few rollouts changes by chance',
    file: `${analysis}/training/findings/behaviour-change.ts`,
    from: 'Math.max(0.05, noise)',
    to: 'Math.max(0.05, 0)',
    tests: ['packages/eval/test/analysis/training-steps.test.ts'],
  },
  {
    name: 'alarms: a first step whose rollouts all failed is what later ones are compared with',
    file: `${analysis}/training/findings/policy-collapse.ts`,
    from: 'before.filter(({ rollouts }) => rollouts.reward !== null)',
    to: 'before.filter(({ rollouts }) => rollouts.reward !== undefined)',
    tests: ['packages/eval/test/analysis/training-steps.test.ts'],
  },
]
