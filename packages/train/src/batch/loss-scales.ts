import type { PolicyLoss, TrainingBatch, UpdateSettings } from '../learner.ts'

/** What the loss of each token of a sequence is multiplied by, for each sequence. */
export function lossScales(
  { loss, sequences }: TrainingBatch,
  settings: Pick<UpdateSettings, 'loss' | 'longestAnswer'>,
): number[] {
  const counts = sequences.map(({ mask }) => sampledIn(mask))
  const tokens = counts.reduce((sum, count) => sum + count, 0)
  return counts.map((count) => {
    if (loss === 'policy_gradient') {
      if (settings.loss === 'dr_grpo') return 1 / (counts.length * settings.longestAnswer)
      if (settings.loss === 'grpo' || settings.loss === 'gspo') return 1 / (counts.length * count)
    }
    return 1 / tokens
  })
}

/** The function of a token's ratio and advantage, as learners name it. */
export function surrogateOf(loss: PolicyLoss): 'ppo' | 'cispo' | 'gspo' {
  return loss === 'cispo' || loss === 'gspo' ? loss : 'ppo'
}

/** Between which a token's ratio is clipped. The limit of `cispo` is that of the weight itself. */
export function clipBounds({
  loss,
  clipLow,
  clipHigh,
}: Pick<UpdateSettings, 'loss' | 'clipLow' | 'clipHigh'>): readonly [low: number, high: number] {
  return [1 - clipLow, loss === 'cispo' ? clipHigh : 1 + clipHigh]
}

/** Number of sampled tokens. */
export function sampledIn(mask: readonly (0 | 1)[]): number {
  return mask.filter((one) => one === 1).length
}
