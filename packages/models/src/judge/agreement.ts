/** How far a judge and people agree on which answers pass. */
export interface Agreement {
  /** Answers that both have judged. */
  readonly answers: number
  /** The share on which they agree. */
  readonly accuracy: number
  /**
   * Cohen's kappa: the same beyond what chance would give, 1 at most. Null when both find all answers
   * the same, because chance explains that.
   */
  readonly kappa: number | null
  readonly bothPass: number
  readonly bothFail: number
  readonly onlyJudgePasses: number
  readonly onlyPeoplePass: number
}

/**
 * Compares the verdicts of a judge with those of people, answer by answer; true is a pass.
 *
 * @throws RangeError when there is nothing to compare
 */
export function agreementOf(
  verdicts: readonly { readonly judge: boolean; readonly people: boolean }[],
): Agreement {
  if (verdicts.length === 0) throw new RangeError('There is no answer that both have judged.')
  const count = (judge: boolean, people: boolean): number =>
    verdicts.filter((one) => one.judge === judge && one.people === people).length
  const cells = {
    bothPass: count(true, true),
    bothFail: count(false, false),
    onlyJudgePasses: count(true, false),
    onlyPeoplePass: count(false, true),
  }
  const answers = verdicts.length
  const accuracy = (cells.bothPass + cells.bothFail) / answers
  const judgePasses = (cells.bothPass + cells.onlyJudgePasses) / answers
  const peoplePass = (cells.bothPass + cells.onlyPeoplePass) / answers
  const byChance = judgePasses * peoplePass + (1 - judgePasses) * (1 - peoplePass)
  const kappa = byChance === 1 ? null : (accuracy - byChance) / (1 - byChance)
  return { answers, accuracy, kappa, ...cells }
}
