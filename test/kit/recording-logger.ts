type Level = 'debug' | 'info' | 'warn' | 'error'
type Write = (fields: Readonly<Record<string, unknown>>, message: string) => void

/** An unformatted log line. */
export interface LogLine {
  level: Level
  message: string
  fields: Record<string, unknown>
}

/** A logger that adds its lines to `log`. */
export function recordingLogger(log: LogLine[]): Record<Level, Write> {
  const at = (level: Level): Write => {
    return (fields, message) => void log.push({ level, message, fields })
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
