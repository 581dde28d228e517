{{- define "wye.name" -}}
{{- if contains "wye" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-wye" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "wye.selector" -}}
app.kubernetes.io/name: wye
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "wye.labels" -}}
{{ include "wye.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "wye.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources:
  {{- toYaml .Values.resources | nindent 2 }}
{{- end }}

{{/* The pod of the writer, or of a reader: a dict of `root` and `readOnly`. */}}
{{- define "wye.pod" -}}
{{- with .root -}}
automountServiceAccountToken: false
# More than WYE_SERVE__SHUTDOWN_SECONDS, so that accepted requests are finished.
terminationGracePeriodSeconds: 40
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if not $.readOnly }}
initContainers:
  - name: index
    {{- include "wye.container" . | nindent 4 }}
    command:
      - python
      - -c
      - "import sys, wye; [wye.create(one.partition('=')[2]).close() for one in sys.argv[1:]]"
      {{- toYaml .Values.indexes | nindent 6 }}
    volumeMounts:
      - name: data
        mountPath: /data
      - name: tmp
        mountPath: /tmp
{{- end }}
containers:
  - name: wye
    {{- include "wye.container" . | nindent 4 }}
    env:
      - name: WYE_SERVE__INDEXES
        value: {{ join "," .Values.indexes | quote }}
      - name: WYE_SERVE__KEYS_FILE
        value: /etc/wye/{{ .Values.keys.entry }}
      {{- range $name, $value := .Values.env }}
      - name: {{ $name }}
        value: {{ $value | quote }}
      {{- end }}
    {{- with .Values.envSecret }}
    envFrom:
      - secretRef:
          name: {{ . }}
    {{- end }}
    ports:
      - name: http
        containerPort: 8000
    startupProbe:
      httpGet:
        path: /health
        port: http
      periodSeconds: 2
      failureThreshold: 60
    livenessProbe:
      httpGet:
        path: /health
        port: http
      timeoutSeconds: 5
    readinessProbe:
      httpGet:
        path: /ready
        port: http
      periodSeconds: 5
      timeoutSeconds: 3
    volumeMounts:
      - name: data
        mountPath: /data
        readOnly: {{ $.readOnly }}
      - name: keys
        mountPath: /etc/wye
        readOnly: true
      - name: tmp
        mountPath: /tmp
volumes:
  - name: data
    persistentVolumeClaim:
      claimName: {{ .Values.storage.existingClaim | default (include "wye.name" .) }}
  - name: keys
    secret:
      secretName: {{ .Values.keys.secret }}
      defaultMode: 0440
  # Uploads take at most four times WYE_DOCUMENTS__UPLOAD_BYTES.
  - name: tmp
    emptyDir:
      sizeLimit: 320Mi
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
