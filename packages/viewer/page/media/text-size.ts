/** The size of text for which the sizes of the page are written. Pixels. */
const usual = 16

/** Pixels of a size at the size of text that the reader has set in the browser; the style sheet has it in rem. */
export function scaled(pixels: number): number {
  const own = Number.parseFloat(getComputedStyle(document.documentElement).fontSize)
  return (pixels * (own || usual)) / usual
}

/** The size for the style sheet. */
export function rem(pixels: number): string {
  return `${pixels / usual}rem`
}
