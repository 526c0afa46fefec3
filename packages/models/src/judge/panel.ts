import { askTogether, type JudgeOptions } from './ask-judge.ts'
import { evaluateRubric, median, type RubricOptions, type RubricScore } from './evaluate-rubric.ts'

/** What {@link panel} judges, and who judges. */
export interface PanelOptions extends Omit<RubricOptions, 'model' | 'apiKey'> {
  /** The judges, two or more: each as `model` of `evaluateRubric`. Keys of models by name are in their variables. */
  readonly models: readonly JudgeOptions['model'][]
  /**
   * How the scores are combined. `majority`: the highest score when more than half of the judges pass the answer, else
   * the lowest. Default: `median`.
   */
  readonly by?: 'median' | 'majority'
  /** The least score that passes. Default: the middle of the range. */
  readonly passThreshold?: number
}

/** The score of several judges. */
export interface PanelScore {
  readonly score: number
  /** The share of pairs of judges that agree whether the answer passes: 1 when all do. */
  readonly agreement: number
  /** What each judge gave, in the order of `models`. */
  readonly judges: readonly RubricScore[]
}

/**
 * Lets several models score an answer by a rubric, each by itself. Judges of different families make different
 * mistakes. When one of them fails there is no score: the others would be another panel.
 *
 * @throws RangeError for fewer than two models, and what `evaluateRubric` throws
 */
export async function panel(options: PanelOptions): Promise<PanelScore> {
  const { models, by = 'median', ...shared } = options
  const { scoreMin = 0, scoreMax = 1, passThreshold = (scoreMin + scoreMax) / 2 } = options
  if (models.length < 2) {
    throw new RangeError(`A panel has two models or more, got ${models.length}.`)
  }
  const judges = await askTogether(options, async (signal) =>
    Promise.all(models.map((model) => evaluateRubric({ ...shared, model, signal }))),
  )
  const scores = judges.map(({ score }) => score)
  const passing = scores.filter((score) => score >= passThreshold).length
  const failing = scores.length - passing
  const byMajority = passing > failing ? scoreMax : scoreMin
  return {
    score: by === 'median' ? median(scores) : byMajority,
    agreement: (pairs(passing) + pairs(failing)) / pairs(scores.length),
    judges,
  }
}

function pairs(count: number): number {
  return (count * (count - 1)) / 2
}
