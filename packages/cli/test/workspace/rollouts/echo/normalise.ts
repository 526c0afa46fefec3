export function normalise(text: string): string {
  return text.trim().toLowerCase()
}
