/**
 * 1 for an answer that ends with the right total as `#### 13.50`, else 0.
 *
 * @param label - the row's ground truth; null when the row has none
 */
export function rewardOf(answer: string, label: string | null): number {
  const said = [...answer.matchAll(/####\s*(-?\d+(?:\.\d+)?)/g)].at(-1)?.[1]
  if (said === undefined || label === null || label.trim() === '') return 0
  return Math.abs(Number(said) - Number(label)) < 0.005 ? 1 : 0
}
